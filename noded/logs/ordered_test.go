package logs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// twoStreams writes two streams as a shim does.
type twoStreams struct {
	t     *testing.T
	dir   string
	keep  int
	files map[string]int // number of the file of each stream
	sizes map[string]int64
	last  string
	until int64
}

func newTwoStreams(t *testing.T, keep int) *twoStreams {
	w := &twoStreams{t: t, dir: t.TempDir(), keep: keep, files: map[string]int{}, sizes: map[string]int64{}}
	for _, name := range []string{container.OrderFile, "stdout", "stderr"} {
		write(t, filepath.Join(w.dir, name), "")
	}
	return w
}

func (w *twoStreams) rotate(stream string) {
	path := filepath.Join(w.dir, stream)
	for i := w.keep - 1; i > 0; i-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", path, i), fmt.Sprintf("%s.%d", path, i+1))
	}
	rename(w.t, path, path+".1")
	write(w.t, path, "")
	w.files[stream]++
	w.sizes[stream], w.last = 0, ""
}

func (w *twoStreams) write(stream, text string) {
	path := filepath.Join(w.dir, stream)
	if w.last != stream {
		f, err := os.Open(path)
		if err != nil {
			w.t.Fatal(err)
		}
		write(w.t, filepath.Join(w.dir, container.OrderFile), container.Run{Stream: stream, File: w.files[stream],
			Inode: inodeOf(f), From: w.sizes[stream], Until: w.until}.String())
		f.Close()
		w.last = stream
	}
	write(w.t, path, text)
	w.sizes[stream] += int64(len(text))
	w.until = w.sizes[stream]
}

func (w *twoStreams) reader() *orderedReader {
	at := func(stream string) place {
		return place{paths: []string{"/none/" + stream, filepath.Join(w.dir, stream)}}
	}
	r, err := openOrdered([]string{"/none", w.dir}, map[string]place{"stdout": at("stdout"), "stderr": at("stderr")})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// TestStreamsInOrder writes two streams in a random order, over rotations, and reads them while they
// are written and afterwards, whole and by their last lines.
func TestStreamsInOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 20 {
		w := newTwoStreams(t, 50)
		follower := w.reader()
		var all, followed bytes.Buffer
		for n := range 60 {
			stream := []string{"stdout", "stderr"}[rng.IntN(2)]
			if rng.IntN(8) == 0 {
				w.rotate(stream)
			}
			text := fmt.Sprintf("%s %d\n", stream, n)
			all.WriteString(text)
			w.write(stream, text)
			if rng.IntN(3) == 0 {
				if err := follower.send(&followed); err != nil {
					t.Fatal(err)
				}
				if followed.String() != all.String() {
					t.Fatalf("seed %d, round %d, after %d: followed is\n%s\nwant\n%s", seed, round, n, &followed, &all)
				}
			}
		}
		follower.close()
		lines := strings.SplitAfter(strings.TrimSuffix(all.String(), "\n"), "\n")
		for _, tail := range []int{-1, 0, 1, 2, 17, 60, 61} {
			r := w.reader()
			var got bytes.Buffer
			want := all.String()
			if tail >= 0 {
				if err := r.seekTail(tail); err != nil {
					t.Fatal(err)
				}
				if want = strings.Join(lines[max(0, len(lines)-tail):], ""); want != "" {
					want += "\n"
				}
			}
			if err := r.copyTo(t.Context(), &got, false, func() bool { return false }); err != nil {
				t.Fatal(err)
			}
			r.close()
			if got.String() != want {
				t.Fatalf("seed %d, round %d, tail %d:\n%s\nwant\n%s", seed, round, tail, &got, want)
			}
			if n := r.skipped(); int(n)+got.Len() != all.Len() {
				t.Fatalf("seed %d, round %d, tail %d: %d bytes are skipped and %d sent, of %d", seed, round, tail, n, got.Len(),
					all.Len())
			}
		}
	}
}

// TestOrderOfRotatedFiles: what is gone is left out, also if the file system gives its number to the
// next file.
func TestOrderOfRotatedFiles(t *testing.T) {
	w := newTwoStreams(t, 1)
	var want []string
	for n := range 12 {
		stream := []string{"stdout", "stderr"}[n%2]
		if n >= 2 {
			w.rotate(stream)
		}
		text := fmt.Sprintf("%s %d\n", stream, n)
		w.write(stream, text)
		want = append(want, text)
	}
	r := w.reader()
	defer r.close()
	var got bytes.Buffer
	if err := r.send(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != strings.Join(want[8:], "") {
		t.Errorf("what is left is\n%s", &got)
	}
}
