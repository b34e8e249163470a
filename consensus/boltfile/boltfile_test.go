package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHeadersOfALog: the later one that is whole counts, wherever the second one lies.
func TestHeadersOfALog(t *testing.T) {
	const magic = 0xED0CDAED
	for size := uint32(512); size <= 1<<16; size *= 2 {
		page := func(txid uint64) []byte { return header(magic, 2, size, 10+txid, txid) }
		torn := append(page(9)[:79:79], ^page(9)[79])
		for name, c := range map[string]struct {
			first, second []byte
			want          uint64 // 0: none is whole
		}{
			"the second is later": {page(3), page(4), 4}, "the first is later": {page(5), page(4), 5},
			"the first is torn": {torn, page(4), 4}, "the second is torn": {page(3), torn, 3},
			"both are torn": {torn, torn, 0}, "no second": {page(3), nil, 3},
			"another magic":            {header(magic+1, 2, size, 1, 9), page(4), 4},
			"another version":          {header(magic, 3, size, 1, 9), page(4), 4},
			"a second of another size": {page(3), header(magic, 2, 2*size, 1, 9), 3},
		} {
			file := make([]byte, int(size)+80)
			copy(file, c.first)
			if file = append(file[:size], c.second...); size < 80 {
				t.Fatal("pages overlap")
			}
			m, ok := newestMeta(bytes.NewReader(file))
			if ok != (c.want > 0) || m.txid != c.want || ok && (m.pages != 10+c.want || m.pageSize != uint64(size)) {
				t.Errorf("pages of %d bytes, %s: %+v, %t", size, name, m, ok)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "log.bolt")
	file := append(header(magic, 2, 512, 3, 1), make([]byte, 3*512)...)[:3*512]
	for size, want := range map[int]string{3 * 512: "", 3*512 - 1: "cut short: 1535 bytes of 1536",
		70: "both of its headers"} {
		if err := os.WriteFile(path, file[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		err := Check(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) ||
			err != nil && !errors.As(err, new(DamageError)) {
			t.Errorf("a file of %d bytes: %v, want %q", size, err, want)
		}
	}
	if err := Check(path + "-"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing log: %v", err)
	}
}

// header is a header page of a log file, behind its page header.
func header(magic, version, pageSize uint32, pages, txid uint64) []byte {
	le := binary.LittleEndian
	b := make([]byte, 16+64)
	le.PutUint32(b[16:], magic)
	le.PutUint32(b[20:], version)
	le.PutUint32(b[24:], pageSize)
	le.PutUint64(b[56:], pages)
	le.PutUint64(b[64:], txid)
	sum := fnv.New64a()
	sum.Write(b[16 : 16+56])
	le.PutUint64(b[72:], sum.Sum64())
	return b
}
