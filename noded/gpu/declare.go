package gpu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	maxDeclarations = 1024        // that are read of a directory; jobs may write as many as they like
	maxDeclaration  = 4096        // bytes that are read of one
	staleAfter      = time.Minute // the file of a process that has ended is removed
)

// readDeclarations returns the processes that declare their use in a directory, by GPU.
//
// A declaration is of a GPU that is not there: a simulated one, or one of the library that stands
// in for NVML. It is a file in a directory that both sides see. Its lines "UUID MIB PERCENT" name
// the GPU, the memory in use and the part of the time in which something runs. The process holds a
// POSIX write lock on the whole file (fcntl F_SETLK, lockf in Python). The kernel tells the reader
// of the file which process that is, by its id on the reader's side. It ends the lock with the
// process, as a driver frees memory. A file that is not locked counts for nothing.
func readDeclarations(dir string) (map[string][]Process, error) {
	if dir == "" {
		return nil, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxDeclarations)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	byGPU := map[string][]Process{}
	for _, name := range names {
		for uuid, p := range readDeclaration(filepath.Join(dir, name)) {
			byGPU[uuid] = append(byGPU[uuid], p)
		}
	}
	for _, list := range byGPU {
		slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	}
	return byGPU, nil
}

// readDeclaration returns the declared use in a file, by GPU. Any other line counts for nothing:
// users make the file.
func readDeclaration(path string) map[string]Process {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	holder := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &holder); err != nil {
		return nil
	}
	if holder.Type == syscall.F_UNLCK || holder.Pid <= 0 {
		if time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(path) // the next reading tries again
		}
		return nil
	}
	found := map[string]Process{}
	for lines := bufio.NewScanner(io.LimitReader(f, maxDeclaration)); lines.Scan(); {
		var uuid string
		var mib, percent int64
		n, err := fmt.Sscanf(lines.Text(), "%s %d %d", &uuid, &mib, &percent)
		if n != 3 || err != nil || mib < 0 || mib > 1<<30 || percent < 0 || percent > 100 {
			break // it is being written, or nonsense
		}
		found[uuid] = Process{PID: int(holder.Pid), Memory: mib << 20, Utilisation: percent * 10}
	}
	return found
}
