package entry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/s2"
)

// The tests here write down bytes and bounds that another version of a member relies on. They use
// literals on purpose: a constant that changes changes the layout.

// TestSumsOfEntries: members of two versions must find the same sums, or one of them stops.
func TestSumsOfEntries(t *testing.T) {
	var got []string
	c := Chain{Known: true}
	for i, l := range []*raft.Log{
		{Type: raft.LogCommand, Data: new(Packer).Encode([][]byte{[]byte("a")})},
		{Type: raft.LogCommand, Data: []byte{1, 2, 3, 4, 5}}, // as long as a header
		{Type: raft.LogCommand, Data: []byte{1, 2, 3, 4}},
		{Type: raft.LogNoop, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{Type: raft.LogConfiguration},
	} {
		l.Index, l.Term = uint64(i+1), 3
		if !c.Add(l) {
			t.Fatalf("entry %d does not follow", l.Index)
		}
		got = append(got, hex.EncodeToString(l.Extensions))
	}
	const want = "00e97112c2de3d6e7c 008426baf0a7737094 00245b32ded6f6e6b0 006c48221aebd95eaf 0091ab4fd51fcdc597"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("the sums are\n%s, want\n%s", text, want)
	}
}

// TestWhereAChainGoesOn: at the end of the log, anew behind a snapshot, and from the begin of an empty log.
func TestWhereAChainGoesOn(t *testing.T) {
	link := func(c Chain, index uint64) (anew byte, after Chain) {
		l := &raft.Log{Index: index, Term: 1, Type: raft.LogNoop}
		if !c.Add(l) {
			t.Fatalf("entry %d is refused", index)
		}
		return l.Extensions[0], c
	}
	for name, c := range map[string]struct {
		from  Chain
		index uint64
		anew  byte
	}{
		"an empty log": {Chain{Known: true}, 1, 0}, "a log that is known": {Chain{Index: 4, Sum: 9, Known: true}, 5, 0},
		"a gap": {Chain{Index: 4, Sum: 9, Known: true}, 6, 1}, "a snapshot": {Chain{}, 1, 1},
		"an entry twice": {Chain{Index: 4, Sum: 9, Known: true}, 4, 1},
	} {
		anew, after := link(c.from, c.index)
		if anew != c.anew || after.Index != c.index || !after.Known {
			t.Errorf("behind %s: anew %d, then at %+v", name, anew, after)
		}
	}
}

// TestBoundsOfAnEntry: of how many bytes it is compressed, and what its numbers may claim.
func TestBoundsOfAnEntry(t *testing.T) {
	for size, format := range map[int]byte{2048 - 8: plainFormat, 2048 - 7: compressedFormat} { // 5 + 1 + 2 beside it
		if b := new(Packer).Encode([][]byte{bytes.Repeat([]byte("x"), size)}); b[0] != format {
			t.Errorf("a proposal of %d bytes has format %d", size, b[0])
		}
	}
	sealed := func(format byte, body []byte) []byte {
		b := binary.LittleEndian.AppendUint32([]byte{format}, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		return append(b, body...)
	}
	claims := func(size int) []byte { return binary.AppendUvarint(nil, uint64(size)) }
	const most = 1<<20 + 32<<20 + 10*4097
	for name, c := range map[string]struct {
		entry []byte
		count int
		want  string // of the error
	}{
		"empty proposals":         {sealed(1, []byte{3, 0, 0, 0}), 3, ""},
		"more than there is room": {sealed(1, []byte{4, 0, 0, 0}), 0, "number of proposals"},
		"bytes behind them":       {sealed(1, []byte{1, 0, 0}), 0, "1 bytes after the last"},
		"a proposal to the end":   {sealed(1, []byte{1, 2, 7, 7}), 1, ""},
		"a proposal too long":     {sealed(1, []byte{1, 3, 7, 7}), 0, "length of proposal 0"},
		"no number":               {sealed(1, nil), 0, "number of proposals"},
		"a number too long":       {sealed(1, bytes.Repeat([]byte{0xff}, 11)), 0, "number of proposals"},
		"no header":               {[]byte{1, 0, 0, 0}, 0, "4 bytes are too few"},
		"a header alone":          {sealed(1, nil), 0, "number of proposals"},
		"format 0":                {sealed(0, []byte{1, 0}), 0, "checksum"},
		"format 3":                {sealed(3, []byte{1, 0}), 0, "entry format 3"},
		"compressed":              {sealed(2, s2.Encode(nil, []byte{1, 0})), 1, ""},
		"the most bytes":          {sealed(2, claims(most)), 0, "compressed part: s2"},
		"more than the most":      {sealed(2, claims(most+1)), 0, "length of the compressed part"},
	} {
		got, err := Decode(c.entry)
		if len(got) != c.count || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d proposals, %v, want %q", name, len(got), err, c.want)
		}
	}
	var k Packer
	one := k.Encode([][]byte{[]byte("one")})
	kept := bytes.Clone(one)
	if k.Encode([][]byte{[]byte("two")}); !bytes.Equal(one, kept) || k.plain == nil {
		t.Errorf("the next entry changes the one before: %q", one)
	}
	if k.Encode([][]byte{make([]byte, 4<<20+4096)}); k.plain != nil || k.compressed != nil {
		t.Errorf("it keeps %d and %d bytes of a large entry", cap(k.plain), cap(k.compressed))
	}
}
