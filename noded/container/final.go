package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// finalError is an error that stays if the operation is repeated.
type finalError struct{ err error }

// Final marks an error that stays if the operation is repeated, here or elsewhere: what the job
// asks for does not exist for its user.
func Final(err error) error { return &finalError{err} }

// Error implements error.
func (e *finalError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *finalError) Unwrap() error { return e.err }

// IsFinal reports whether an error, or one that it wraps, was marked with Final.
func IsFinal(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

// FinalAt marks an error about a path as final if it would be the same on every machine. That is so
// if the user may not reach the path, or the path is missing from its directory. If the directory
// is missing as well, this machine may have lost a file system. Other errors may be the file
// system's fault. A network file system may refuse one machine, or refuse for a while. Reasons are
// a missing ticket of Kerberos, a server that squashes root, or one that exports anew.
func FinalAt(path string, err error) error { return finalAt(path, err, onNetwork(path)) }

func finalAt(path string, err error, network bool) error {
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		_, above := os.Lstat(filepath.Dir(path))
		missing = above == nil
	}
	if missing || !network && errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
		return Final(err)
	}
	return err
}

// networkTypes are the numbers of file systems whose server may be elsewhere, from statfs(2) and
// linux/magic.h.
var networkTypes = map[int64]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.SMB2_SUPER_MAGIC: "SMB2", unix.FUSE_SUPER_MAGIC: "FUSE", unix.AUTOFS_SUPER_MAGIC: "autofs",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS", unix.V9FS_MAGIC: "9P",
	unix.CODA_SUPER_MAGIC: "Coda", unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x0BD00BD0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x013111A8: "IBRIX",
	0xaad7aaea: "PanFS", 0x20030528: "OrangeFS",
}

// onNetwork reports whether a path, or the nearest directory above it that this user can ask, is on a
// network file system. What cannot be asked at all counts as one, and so does an entry that refuses
// although its directory may be searched: a file system whose server refuses may be mounted there.
func onNetwork(path string) bool {
	refused := false
	for {
		var s unix.Statfs_t
		err := unix.Statfs(path, &s)
		if err == nil {
			_, network := networkTypes[s.Type]
			return network || refused && unix.Statfs(path+"/.", &s) == nil
		}
		refused = errors.Is(err, unix.EACCES)
		if !refused && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) || path == "/" || path == "." {
			return true
		}
		path = filepath.Dir(path)
	}
}
