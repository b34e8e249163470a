package keyring

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhichKeyringErrorsMeanNone notices a container that fails, or shares a keyring, for the wrong
// reason.
func TestWhichKeyringErrorsMeanNone(t *testing.T) {
	for err, want := range map[error]bool{unix.EPERM: true, unix.EACCES: true, unix.ENOSYS: true, unix.EDQUOT: false,
		unix.ENOMEM: false, nil: false, errors.New("other"): false} {
		if refused(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}

// TestTheProbeLeavesTheKeyring notices a probe that changes the session keyring of this process.
func TestTheProbeLeavesTheKeyring(t *testing.T) {
	session := func() int {
		id, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		if err != nil {
			t.Skipf("no keyrings here: %v", err)
		}
		return id
	}
	before := session()
	if !Allowed() {
		t.Error("keyrings work, and are not used")
	}
	if after := session(); after != before {
		t.Errorf("keyring %x became %x", before, after)
	}
}
