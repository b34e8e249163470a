package container

import (
	"fmt"
	"strconv"
	"strings"
)

// OrderFile is the file beside a task's output in the daemon's directory that says in which order two
// streams were written to two files. It has a line for each run: output of one stream to one file,
// with nothing of the other stream in between. The line is written before the output, so that a
// reader knows to which run what it reads belongs.
const OrderFile = "order"

// Run is a line of the [OrderFile].
type Run struct {
	Stream string // stdout or stderr
	// File numbers the files of the stream from 0, which are rotated, and Inode is its file's.
	File  int
	Inode uint64
	From  int64 // in the file
	Until int64 // of the run before this one, in its file
}

// String returns the line.
func (r Run) String() string {
	return fmt.Sprintf("%s %d %d %d %d\n", r.Stream, r.File, r.Inode, r.From, r.Until)
}

// ParseRun reads a line, without its end.
func ParseRun(line string) (r Run, ok bool) {
	words := strings.Fields(line)
	if len(words) != 5 || words[0] != "stdout" && words[0] != "stderr" {
		return r, false
	}
	var errs [4]error
	r.Stream = words[0]
	r.File, errs[0] = strconv.Atoi(words[1])
	r.Inode, errs[1] = strconv.ParseUint(words[2], 10, 64)
	r.From, errs[2] = strconv.ParseInt(words[3], 10, 64)
	r.Until, errs[3] = strconv.ParseInt(words[4], 10, 64)
	for _, err := range errs {
		if err != nil {
			return r, false
		}
	}
	return r, min(r.From, r.Until, int64(r.File)) >= 0
}
