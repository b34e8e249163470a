package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// magic starts every checkpoint; its last digit is the version of the layout.
const magic = "rota-trainer-1\n"

// maxWeights bounds what a checkpoint may claim to hold, so that a damaged one cannot exhaust
// memory.
const maxWeights = 1 << 24

// checkpoint is everything a run needs to go on: the steps done, the shape, and the weights. It
// does not say how many workers wrote it, because that does not matter.
type checkpoint struct {
	Steps int
	shape
	Weights []float64
}

// encode lays a checkpoint out: magic, header, weights, CRC-32 of all before it.
func (c checkpoint) encode() []byte {
	var b bytes.Buffer
	b.WriteString(magic)
	for _, v := range []uint64{uint64(c.Steps), uint64(c.Inputs), uint64(c.Hidden), uint64(c.Batch), uint64(c.Shards),
		c.Seed} {
		b.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
	b.Write(appendFloats(nil, c.Weights))
	return binary.LittleEndian.AppendUint32(b.Bytes(), crc32.ChecksumIEEE(b.Bytes()))
}

// decode is the inverse of encode. It returns an error for anything that encode did not write.
func decode(b []byte) (checkpoint, error) {
	const header = len(magic) + 6*8
	if len(b) < header+4 || string(b[:len(magic)]) != magic {
		return checkpoint{}, errors.New("not a checkpoint of this trainer, or cut short")
	}
	body, want := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if got := crc32.ChecksumIEEE(body); got != want {
		return checkpoint{}, fmt.Errorf("checksum is %08x, should be %08x", got, want)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[len(magic)+8*i:]) }
	for i := range 5 {
		if field(i) > maxWeights {
			return checkpoint{}, fmt.Errorf("header field %d is out of range: %d", i, field(i))
		}
	}
	c := checkpoint{Steps: int(field(0)), shape: shape{int(field(1)), int(field(2)), int(field(3)), int(field(4)),
		field(5)}}
	if c.size() > maxWeights || len(body)-header != 8*c.size() {
		return checkpoint{}, fmt.Errorf("holds %d bytes of weights, its shape needs %d", len(body)-header, 8*c.size())
	}
	c.Weights = readFloats(body[header:])
	return c, nil
}

// save writes the checkpoint beside its name, makes it durable, and renames it: a reader sees the
// old one or the new one.
func (c checkpoint) save(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".checkpoint-*")
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, werr := f.Write(c.encode())
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load reads a checkpoint of the given shape. A missing file is a fresh start: ok is false and err
// nil.
func load(path string, want shape) (c checkpoint, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, fmt.Errorf("read checkpoint: %w", err)
	}
	c, err = decode(b)
	if err != nil {
		return c, false, fmt.Errorf("checkpoint %s: %w; remove it to start from the beginning", path, err)
	}
	if c.shape != want {
		return c, false, fmt.Errorf("checkpoint %s belongs to another run: it has %+v, but the flags say %+v", path,
			c.shape, want)
	}
	return c, true, nil
}
