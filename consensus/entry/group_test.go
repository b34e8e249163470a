package entry

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// alike returns proposals as many callers make them in one moment.
func alike(n int) [][]byte {
	var group [][]byte
	for i := range n {
		group = append(group, fmt.Appendf(nil, `{"kind":"submit","key":"%08x","workdir":"/home/ada",`+
			`"command":["true"],"memory":67108864}`, i*2654435761))
	}
	return group
}

func TestGroupsAreReadAsWritten(t *testing.T) {
	var entries Packer // one for all: what it keeps of an entry must not show in the next
	for _, group := range [][][]byte{
		{nil}, {[]byte("one")}, alike(2), alike(64), {bytes.Repeat([]byte("x"), ProposalMax)},
	} {
		got, err := Decode(entries.Encode(group))
		if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", group) {
			t.Fatalf("%d proposals: %d came back, %v", len(group), len(got), err)
		}
	}
}

func TestAlikeProposalsShareTheirText(t *testing.T) {
	group := alike(64)
	if text, entry := bytes.Join(group, nil), new(Packer).Encode(group); len(entry) > len(text)/2 {
		t.Errorf("%d bytes of %d are left", len(entry), len(text))
	}
	if lone := new(Packer).Encode(alike(1)); lone[0] != plainFormat {
		t.Errorf("a short entry has format %d", lone[0])
	}
}

func TestADamagedGroupIsRefused(t *testing.T) {
	for _, count := range []int{2, 64} { // plain and compressed
		entry := new(Packer).Encode(alike(count))
		for i := 1; i < len(entry); i++ { // the format byte comes before the checksum
			entry[i] ^= 0x10
			if _, err := Decode(entry); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d proposals, byte %d flipped: %v", count, i, err)
			}
			entry[i] ^= 0x10
		}
	}
	if _, err := Decode(append([]byte{compressedFormat + 1}, make([]byte, 8)...)); !errors.Is(err, ErrNewer) {
		t.Errorf("a format that is not known yet: %v", err)
	}
}

func FuzzDecodeGroup(f *testing.F) {
	f.Add(new(Packer).Encode(alike(3)))
	f.Add(new(Packer).Encode(alike(64)))
	f.Fuzz(func(t *testing.T, entry []byte) {
		group, err := Decode(entry)
		if err != nil {
			return
		}
		again, err := Decode(new(Packer).Encode(group))
		if err != nil || len(again) != len(group) {
			t.Fatalf("%d proposals, then %d: %v", len(group), len(again), err)
		}
	})
}
