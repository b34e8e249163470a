package consensus

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
		group = append(group, fmt.Appendf(nil, `{"kind":"submit","key":"%08x","workdir":"/home/ada","command":["true"],"memory":67108864}`, i*2654435761))
	}
	return group
}

func TestGroupsAreReadAsWritten(t *testing.T) {
	var entries packer // one for all: what it keeps of an entry must not show in the next
	for _, group := range [][][]byte{{nil}, {[]byte("one")}, alike(2), alike(64), {bytes.Repeat([]byte("x"), ProposalMax)}} {
		for _, compress := range []bool{false, true} {
			entry := entries.encode(group, compress)
			got, err := decodeGroup(entry)
			if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", group) {
				t.Fatalf("%d proposals, compressed %v: %d came back, %v", len(group), compress, len(got), err)
			}
		}
	}
}

func TestAlikeProposalsShareTheirText(t *testing.T) {
	plain, short := new(packer).encode(alike(64), false), new(packer).encode(alike(64), true)
	if len(short) > len(plain)/2 {
		t.Errorf("%d bytes of %d are left", len(short), len(plain))
	}
	if lone := new(packer).encode(alike(1), true); lone[0] != groupPlain {
		t.Errorf("a short entry has format %d", lone[0])
	}
}

func TestADamagedGroupIsRefused(t *testing.T) {
	for _, compress := range []bool{false, true} {
		entry := new(packer).encode(alike(64), compress)
		for i := 1; i < len(entry); i++ { // the format byte comes before the checksum
			entry[i] ^= 0x10
			if _, err := decodeGroup(entry); !errors.Is(err, errGroup) {
				t.Fatalf("compressed %v, byte %d flipped: %v", compress, i, err)
			}
			entry[i] ^= 0x10
		}
	}
	if _, err := decodeGroup(append([]byte{groupCompressed + 1}, make([]byte, 8)...)); !errors.Is(err, ErrNewer) {
		t.Errorf("a format that is not known yet: %v", err)
	}
}

func FuzzDecodeGroup(f *testing.F) {
	f.Add(new(packer).encode(alike(3), false))
	f.Add(new(packer).encode(alike(64), true))
	f.Fuzz(func(t *testing.T, entry []byte) {
		group, err := decodeGroup(entry)
		if err != nil {
			return
		}
		again, err := decodeGroup(new(packer).encode(group, true))
		if err != nil || len(again) != len(group) {
			t.Fatalf("%d proposals, then %d: %v", len(group), len(again), err)
		}
	})
}
