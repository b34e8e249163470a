// Package backup writes and reads the file of rota cluster backup. The file has the state of a
// cluster at one index, its history and, on request, its keys under a passphrase. The file is a tar
// archive compressed by zstd, so that standard programs can read it. Its last entry has the digests
// of all others, so that a truncated or changed file is refused.
package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Format is the version of the file format.
const Format = "rota-backup/1"

// Entries of the archive, in this order.
const (
	entryManifest = "backup.json"
	entryState    = "state.jsonl"
	entryHistory  = "history.db"
	entryKeys     = "keys.json" // only if the keys were requested
	entrySums     = "sums.json"
)

// maxSmall bounds the size in bytes of entries that are read into memory.
const maxSmall = 1 << 20

// ErrNotABackup refuses a file that is no backup or is incomplete.
var ErrNotABackup = errors.New("not a whole backup of Rota")

// Manifest describes a backup.
type Manifest struct {
	Format     string    `json:"format"`
	DataFormat string    `json:"data_format"` // of the state
	Version    string    `json:"version"`     // of the controller that wrote it
	Cluster    string    `json:"cluster"`     // id
	Name       string    `json:"name"`        // of the cluster
	Controller string    `json:"controller"`  // that wrote it
	Index      uint64    `json:"index"`       // of the state
	LastSeq    int64     `json:"last_seq"`    // of the history
	Generation string    `json:"generation"`
	Saved      time.Time `json:"saved"`
	Keys       bool      `json:"keys"`
}

// Parts are the inputs of a backup.
type Parts struct {
	Manifest
	State   string // file with the snapshot
	History string // file with the history
	Sealed  []byte // result of [Seal]; nil: the backup has no keys
}

// Size returns how many bytes the parts have before they are compressed.
func (p *Parts) Size() (bytes int64, err error) {
	for _, path := range []string{p.State, p.History} {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, nil
}

// Write writes a backup.
func Write(w io.Writer, p Parts) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	a := &writer{tar: tar.NewWriter(z), sums: map[string]string{}, at: p.Saved}
	p.Format, p.Keys = Format, p.Sealed != nil
	text, err := json.Marshal(p.Manifest)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return a.bytes(entryManifest, text) },
		func() error { return a.file(entryState, p.State) },
		func() error { return a.file(entryHistory, p.History) },
		func() error {
			if p.Sealed == nil {
				return nil
			}
			return a.bytes(entryKeys, p.Sealed)
		},
		func() error {
			sums, err := json.Marshal(a.sums)
			if err != nil {
				return err
			}
			return a.bytes(entrySums, sums)
		},
		a.tar.Close, z.Close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return errors.Join(fmt.Errorf("write the backup: %w", err), z.Close())
		}
	}
	return nil
}

// writer adds entries to an archive.
type writer struct {
	tar  *tar.Writer
	sums map[string]string
	at   time.Time
}

func (a *writer) bytes(name string, b []byte) error {
	return a.add(name, int64(len(b)), bytes.NewReader(b))
}

func (a *writer) file(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.add(name, info.Size(), f)
}

func (a *writer) add(name string, size int64, r io.Reader) error {
	h := &tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: a.at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(a.tar, io.TeeReader(r, sum)); err != nil {
		return err
	}
	a.sums[name] = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// Uses receive the parts of a backup while it is read, in this order. A nil function skips its
// part.
type Uses struct {
	Manifest func(Manifest) error // its error is returned unchanged
	State    func(io.Reader) error
	History  func(io.Reader) error
	Unpacked func(io.Reader) io.Reader // sees the bytes of all parts, [Parts.Size] of them or a little more
}

// Read verifies a whole backup, and passes its parts to functions meanwhile. The errors name it so. They wrap
// ErrNotABackup if it is no backup, truncated or changed; the results of the functions are then
// invalid.
func Read(from io.Reader, name string, u Uses) (m Manifest, sealed []byte, err error) {
	z, err := zstd.NewReader(from)
	if err != nil {
		return m, nil, err
	}
	defer z.Close()
	unpacked := io.Reader(z)
	if u.Unpacked != nil {
		unpacked = u.Unpacked(z)
	}
	r := &reader{tar: tar.NewReader(unpacked), sums: map[string]string{}}
	if m, err = r.manifest(); err != nil {
		return m, nil, fmt.Errorf("%s: %w", name, err)
	}
	if u.Manifest != nil {
		if err := u.Manifest(m); err != nil {
			return m, nil, err
		}
	}
	if sealed, err = r.parts(m, u); err != nil {
		return m, nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := io.Copy(io.Discard, unpacked); err != nil { // the end of the compressed form has a checksum
		return m, nil, fmt.Errorf("%s: %w: %w", name, ErrNotABackup, err)
	}
	return m, sealed, nil
}

// reader reads the entries of an archive.
type reader struct {
	tar  *tar.Reader
	sums map[string]string
}

func (r *reader) manifest() (m Manifest, err error) {
	text, err := r.small(entryManifest)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%w: %w", ErrNotABackup, err)
	}
	if m.Format != Format {
		return m, fmt.Errorf("%w: it has format %q, but this program reads format %q", ErrNotABackup, m.Format, Format)
	}
	return m, nil
}

func (r *reader) parts(m Manifest, u Uses) (sealed []byte, err error) {
	if err := r.pass(entryState, u.State); err != nil {
		return nil, err
	}
	if err := r.pass(entryHistory, u.History); err != nil {
		return nil, err
	}
	if m.Keys {
		if sealed, err = r.small(entryKeys); err != nil {
			return nil, err
		}
	}
	made := map[string]string{}
	for k, v := range r.sums {
		made[k] = v
	}
	text, err := r.small(entrySums)
	if err != nil {
		return nil, err
	}
	var want map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotABackup, err)
	}
	if len(want) != len(made) {
		return nil, fmt.Errorf("%w: it has %d parts, but its list has %d", ErrNotABackup, len(made), len(want))
	}
	for name, sum := range made {
		if want[name] != sum {
			return nil, fmt.Errorf("%w: the digest of %s does not match: the file was changed or damaged", ErrNotABackup, name)
		}
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: data follows its end", ErrNotABackup)
	}
	return sealed, nil
}

// next moves to the entry with this name.
func (r *reader) next(name string) error {
	h, err := r.tar.Next()
	if err != nil {
		return fmt.Errorf("%w: %s is missing: %w", ErrNotABackup, name, err)
	}
	if h.Name != name || h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%w: %q is where %s belongs", ErrNotABackup, h.Name, name)
	}
	return nil
}

func (r *reader) small(name string) ([]byte, error) {
	var b []byte
	err := r.pass(name, func(from io.Reader) (err error) {
		b, err = io.ReadAll(io.LimitReader(from, maxSmall))
		return err
	})
	return b, err
}

// pass passes an entry to a function, and reads the rest of the entry.
func (r *reader) pass(name string, to func(io.Reader) error) error {
	if err := r.next(name); err != nil {
		return err
	}
	sum := sha256.New()
	from := io.TeeReader(r.tar, sum)
	if to != nil {
		if err := to(from); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrNotABackup, name, err)
		}
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotABackup, name, err)
	}
	r.sums[name] = hex.EncodeToString(sum.Sum(nil))
	return nil
}
