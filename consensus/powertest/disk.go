package powertest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// inode identifies a file while it is held open.
type inode struct{ device, number uint64 }

// disk is the content that would survive a power cut.
type disk struct {
	mu     sync.Mutex
	frozen bool // the power is cut: nothing is recorded any more
	files  map[inode][]byte
	dirs   map[inode]map[string]entry
	held   map[inode]*os.File // kept open, so that no other file gets the same inode number
}

// entry is a name in a directory.
type entry struct {
	inode
	mode fs.FileMode
}

func newDisk() *disk {
	return &disk{files: map[inode][]byte{}, dirs: map[inode]map[string]entry{}, held: map[inode]*os.File{}}
}

func (d *disk) close() {
	for _, f := range d.held {
		f.Close()
	}
}

// freeze cuts the power.
func (d *disk) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = true
}

// sync records the content of the file at path before the program's fsync returns. It returns false
// after the power cut.
func (d *disk) sync(path string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen {
		return false, nil
	}
	id, f, err := d.hold(path)
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		d.dirs[id], err = d.names(f)
		return true, err
	}
	content := make([]byte, info.Size())
	if _, err := f.ReadAt(content, 0); err != nil && err != io.EOF {
		return false, err
	}
	d.files[id] = content
	return true, nil
}

// hold opens a file and keeps it open.
func (d *disk) hold(path string) (inode, *os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return inode{}, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return inode{}, nil, err
	}
	id := inodeOf(info)
	if known := d.held[id]; known != nil {
		f.Close()
		return id, known, nil
	}
	d.held[id] = f
	return id, f, nil
}

// names returns the entries of a directory.
func (d *disk) names(dir *os.File) (map[string]entry, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	list, err := dir.Readdir(-1)
	if err != nil {
		return nil, err
	}
	names := map[string]entry{}
	for _, info := range list {
		if !info.Mode().IsRegular() && !info.IsDir() {
			continue
		}
		// Files may have been renamed since, but the path of the directory itself must not change.
		id, _, err := d.hold(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), info.Name()))
		if err != nil {
			return nil, err
		}
		names[info.Name()] = entry{id, info.Mode()}
	}
	return names, nil
}

// restore replaces the content of dir by the recorded content. The directory dir itself must exist.
func (d *disk) restore(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	id := inodeOf(info)
	if err := os.Rename(dir, dir+".lost"); err != nil {
		return err
	}
	return d.write(dir, entry{id, info.Mode()})
}

// write creates a file or a directory with its whole content.
func (d *disk) write(path string, e entry) error {
	if !e.mode.IsDir() {
		return os.WriteFile(path, d.files[e.inode], e.mode.Perm())
	}
	if err := os.Mkdir(path, e.mode.Perm()); err != nil {
		return err
	}
	for name, below := range d.dirs[e.inode] {
		if err := d.write(filepath.Join(path, name), below); err != nil {
			return err
		}
	}
	return nil
}

func inodeOf(info fs.FileInfo) inode {
	s := info.Sys().(*syscall.Stat_t)
	return inode{s.Dev, s.Ino}
}
