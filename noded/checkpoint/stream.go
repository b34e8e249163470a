package checkpoint

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// A folder travels as a tar stream, each directory before its content. A file with the sum of all
// entries is last, so that a stream that was cut off or changed is noticed.

const (
	sumsFile = "sums" // the last entry; see sums
	maxDepth = 100    // of directories in one another: each is a step on the way to every file below it
	// bytes of all files, holes included: more than a node can hold, and little enough to be sent in a day
	maxBytes  = 16 << 40
	blockSize = 64 << 10 // a block of zeros of this size is left out of a file as a hole
	roomEvery = 64 << 20 // bytes between two looks at how much room is left
)

// stallTime is how long a stream may bring nothing. A busy source disk stays well below it.
const stallTime = time.Minute

// sums is the sum of the entries of a stream: of everything that their headers say and of the SHA-256
// of their content. It is one number, so that a job with a million files costs no memory.
type sums struct {
	all hash.Hash
	n   int64
}

func newSums() *sums { return &sums{all: sha256.New()} }

// add adds an entry whose content has a sum (nil: it has none).
func (s *sums) add(h *tar.Header, content []byte) {
	s.n++
	fmt.Fprintf(s.all, "%q %c %o %d %d %d %q %x\n", h.Name, h.Typeflag, h.Mode, h.Size, h.ModTime.Unix(),
		h.ModTime.Nanosecond(), h.Linkname, content)
}

// text returns the text of the stream's last entry.
func (s *sums) text() []byte {
	return fmt.Appendf(nil, "%d %s\n", s.n, hex.EncodeToString(s.all.Sum(nil)))
}

// walk visits the carried files of a folder, directories before their content. Links are not
// followed. It skips everything but files, directories and links.
func walk(root *os.Root, visit func(name string, info fs.FileInfo) error) error {
	for _, top := range []string{filesDir, imageDir} {
		info, err := root.Lstat(top)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no directory", top)
		}
		if err == nil {
			err = walkDir(root, top, info, 1, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func walkDir(
	root *os.Root, dir string, info fs.FileInfo, depth int, visit func(string, fs.FileInfo) error,
) error {
	if depth > maxDepth {
		return fmt.Errorf("directories in it are nested more than %d deep", maxDepth)
	}
	if err := visit(dir, info); err != nil {
		return err
	}
	d, err := openSame(root, dir, info)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(1000)
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			info, err := root.Lstat(name)
			switch {
			case err != nil:
			case info.IsDir():
				err = walkDir(root, name, info, depth+1, visit)
			case info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0:
				err = visit(name, info)
			}
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openSame opens a file or a directory, and checks that it is still the inspected one. A link is
// followed below root, and the pipe that has taken the place of a file is not waited for.
func openSame(root *os.Root, name string, seen fs.FileInfo) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, seen) {
		err = fmt.Errorf("%s has changed while it was read", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// measure returns how many bytes a folder takes on the disk. Names that share a file are counted, as
// they are carried, one by one.
func measure(ctx context.Context, root *os.Root) (int64, error) {
	var taken, all int64
	err := walk(root, func(_ string, info fs.FileInfo) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		taken += 4096 // of the entry itself, at most
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() {
			if all += info.Size(); info.Size() > maxBytes || all > maxBytes {
				return fmt.Errorf("its files have more than %d TiB", maxBytes>>40)
			}
			taken += min(info.Size(), st.Blocks*512)
		}
		return nil
	})
	return taken, err
}

// send writes a folder to out. Before the end it checks that the folder is still the same.
func send(ctx context.Context, root *os.Root, out io.Writer, still func() error) error {
	tw, sum := tar.NewWriter(out), newSums()
	err := walk(root, func(name string, info fs.FileInfo) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h := &tar.Header{Format: tar.FormatPAX, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
		switch {
		case info.IsDir():
			h.Typeflag = tar.TypeDir
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := root.Readlink(name)
			if err != nil {
				return err
			}
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, to, 0o777
		default:
			h.Typeflag, h.Size = tar.TypeReg, info.Size()
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Typeflag != tar.TypeReg {
			sum.add(h, nil)
			return nil
		}
		content, err := sendFile(ctx, root, name, info, tw)
		sum.add(h, content)
		return err
	})
	if err == nil {
		err = still()
	}
	if err != nil {
		return err
	}
	text := sum.text()
	err = tw.WriteHeader(&tar.Header{Format: tar.FormatPAX, Name: sumsFile, Typeflag: tar.TypeReg, Size: int64(len(text))})
	if err == nil {
		_, err = tw.Write(text)
	}
	return errors.Join(err, tw.Close())
}

// sendFile writes the content of a file, and returns its sum.
func sendFile(ctx context.Context, root *os.Root, name string, info fs.FileInfo, out io.Writer) ([]byte, error) {
	f, err := openSame(root, name, info)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content := sha256.New()
	buf := make([]byte, blockSize)
	n, err := io.CopyBuffer(io.MultiWriter(out, content), untilDone{ctx, io.LimitReader(f, info.Size())}, buf)
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%s has changed while it was read", name)
	}
	return content.Sum(nil), err
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r untilDone) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(b)
}

// stalling ends a stream that brings nothing for stallTime. Only the time counts that is spent waiting
// for it.
type stalling struct {
	io.Reader
	timer *time.Timer
}

// watched returns a reader of in that calls cancel when nothing comes any more.
func watched(ctx context.Context, in io.Reader, cancel context.CancelCauseFunc) *stalling {
	t := time.AfterFunc(stallTime, func() { cancel(fmt.Errorf("no data came for %v", stallTime)) })
	t.Stop()
	return &stalling{untilDone{ctx, in}, t}
}

// Read implements io.Reader.
func (s *stalling) Read(b []byte) (int, error) {
	s.timer.Reset(stallTime)
	defer s.timer.Stop()
	return s.Reader.Read(b)
}

func (s *stalling) stop() { s.timer.Stop() }

// receiver writes a stream to a folder.
type receiver struct {
	user container.User
	room func() error // says that too little room is left; it is asked now and then

	root    *os.Root
	open    []*tar.Header // directories that are not complete, each in the one before
	written int64         // since room was asked
	block   []byte
}

var errEnd = errors.New("it ends before its checksums: the connection broke")

// receive writes a whole stream below root, owned by the job's user, and puts it on the disk. It fails
// on anything that [send] does not write.
func (r *receiver) receive(ctx context.Context, root *os.Root, in io.Reader) error {
	r.root, r.block = root, make([]byte, blockSize)
	tr, sum := tar.NewReader(in), newSums()
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errEnd
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if h.Name == sumsFile {
			if err := r.leave(0); err != nil {
				return err
			}
			return checkSums(tr, h, sum)
		}
		content, err := r.entry(ctx, h, tr)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errEnd
		}
		if err != nil {
			return fmt.Errorf("%q: %w", shortName(h.Name), err)
		}
		sum.add(h, content)
	}
}

func shortName(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// checkSums compares the received files with the sums that the source has sent.
func checkSums(tr *tar.Reader, h *tar.Header, sum *sums) error {
	want := sum.text()
	if h.Typeflag != tar.TypeReg || h.Size > 1000 {
		return errors.New("its checksums cannot be read")
	}
	got, err := io.ReadAll(tr)
	if err != nil {
		return errEnd
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the checksums of its %d files do not match: the files were changed on the way, or a disk is "+
			"failing", sum.n)
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		return errors.New("data follows its checksums")
	}
	return nil
}

// entry writes one entry, and returns the sum of its content.
func (r *receiver) entry(ctx context.Context, h *tar.Header, in io.Reader) ([]byte, error) {
	if h.Typeflag == tar.TypeDir {
		h.Name = strings.TrimSuffix(h.Name, "/")
	}
	if err := r.place(h); err != nil {
		return nil, err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		r.open = append(r.open, h)
		return nil, r.root.Mkdir(h.Name, 0o700)
	case tar.TypeSymlink:
		uid, gid := r.owner(h.Name)
		err := r.root.Symlink(h.Linkname, h.Name)
		if err == nil {
			err = r.root.Lchown(h.Name, uid, gid)
		}
		return nil, err
	case tar.TypeReg:
		return r.file(ctx, h, in)
	}
	return nil, fmt.Errorf("an entry of type %q cannot be copied", h.Typeflag)
}

// place makes sure that an entry lies in a directory that has come in this stream, and completes
// those that nothing more can come into. Such a directory is no link, since nothing replaces an
// existing file.
func (r *receiver) place(h *tar.Header) error {
	dir := path.Dir(h.Name)
	if !filepath.IsLocal(h.Name) || path.Clean(h.Name) != h.Name || h.Mode&^0o777 != 0 ||
		dir == "." && (h.Typeflag != tar.TypeDir || h.Name != filesDir && h.Name != imageDir) {
		return errors.New("it does not belong in a checkpoint")
	}
	n := len(r.open)
	for n > 0 && r.open[n-1].Name != dir {
		n--
	}
	if n == 0 && dir != "." {
		return errors.New("it came before its directory")
	}
	if n >= maxDepth && h.Typeflag == tar.TypeDir {
		return fmt.Errorf("it is nested more than %d directories deep", maxDepth)
	}
	return r.leave(n)
}

// leave completes all but the first n open directories.
func (r *receiver) leave(n int) error {
	for len(r.open) > n {
		h := r.open[len(r.open)-1]
		r.open = r.open[:len(r.open)-1]
		uid, gid := r.owner(h.Name)
		d, err := r.root.Open(h.Name)
		if err != nil {
			return err
		}
		err = errors.Join(d.Chown(uid, gid), d.Chmod(fs.FileMode(h.Mode)), r.root.Chtimes(h.Name, h.ModTime, h.ModTime),
			d.Sync(), d.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// owner returns to which user and group an entry belongs.
func (r *receiver) owner(name string) (uid, gid int) {
	if name == imageDir || strings.HasPrefix(name, imageDir+"/") {
		return os.Geteuid(), os.Getegid()
	}
	return int(r.user.UID), int(r.user.GID)
}

// file writes one file, and returns the sum of its content.
func (r *receiver) file(ctx context.Context, h *tar.Header, in io.Reader) ([]byte, error) {
	if h.Size > maxBytes {
		return nil, fmt.Errorf("it has more than %d TiB", maxBytes>>40)
	}
	f, err := r.root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content := sha256.New()
	for left := h.Size; left > 0; {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		block := r.block[:min(left, blockSize)]
		if _, err := io.ReadFull(in, block); err != nil {
			return nil, err
		}
		content.Write(block)
		if err := r.write(f, block); err != nil {
			return nil, err
		}
		left -= int64(len(block))
	}
	uid, gid := r.owner(h.Name)
	err = errors.Join(f.Truncate(h.Size), f.Chown(uid, gid), f.Chmod(fs.FileMode(h.Mode)),
		r.root.Chtimes(h.Name, h.ModTime, h.ModTime), f.Sync())
	return content.Sum(nil), err
}

var zeros [blockSize]byte

// write writes a block, and leaves a hole for one of zeros.
func (r *receiver) write(f *os.File, block []byte) error {
	if bytes.Equal(block, zeros[:len(block)]) {
		_, err := f.Seek(int64(len(block)), io.SeekCurrent)
		return err
	}
	if r.written += int64(len(block)); r.written >= roomEvery {
		r.written = 0
		if err := errors.Join(r.room(), f.Sync()); err != nil { // a long sync at the end would look like a halt
			return err
		}
	}
	_, err := f.Write(block)
	return err
}
