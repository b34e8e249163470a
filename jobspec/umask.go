package jobspec

import (
	"fmt"
	"strconv"
)

// Umask is the file mode creation mask of a job's processes and of its output files. JSON has it as octal
// digits, such as "0077". The zero value is none, and means [DefaultUmask].
type Umask uint16

// DefaultUmask is the mask of a job that has none: others may read its files, and not write them.
const DefaultUmask = 0o022

// Masks have nine bits. The bit above them tells the mask 0 from none.
const (
	umaskBits  Umask = 0o777
	umaskGiven Umask = 0o1000
)

// NewUmask returns a mask. Bits above 0777 are left out, as umask(2) does it.
func NewUmask(mask int) Umask { return Umask(mask)&umaskBits | umaskGiven }

// Mask returns the mask that holds.
func (u Umask) Mask() uint32 {
	if u == 0 {
		return DefaultUmask
	}
	return uint32(u & umaskBits)
}

// String returns the mask as octal digits, "" for none.
func (u Umask) String() string {
	if u == 0 {
		return ""
	}
	return fmt.Sprintf("%04o", uint16(u&umaskBits))
}

// MarshalText implements encoding.TextMarshaler.
func (u Umask) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (u *Umask) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*u = 0
		return nil
	}
	n, err := strconv.ParseUint(string(text), 8, 16)
	if err != nil || n > uint64(umaskBits) {
		return fmt.Errorf(`%q is not a umask: write octal digits from "0" to "0777", such as "0077"`, text)
	}
	*u = NewUmask(int(n))
	return nil
}
