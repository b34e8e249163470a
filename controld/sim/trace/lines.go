package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/sim/trace/field"
)

// Bounds of an input.
const (
	maxLine   = 64 << 10 // bytes of a line; longer ones are left out
	peekBytes = 16 << 10 // bytes at the start, which tell the format
)

// open unpacks r if it is gzip. The result can be peeked at.
func open(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReaderSize(r, maxLine)
	magic, err := b.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("unpack the input: %w", cut(err))
		}
		b = bufio.NewReaderSize(unpacker{z}, maxLine)
	}
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(3) // three bytes are buffered
	}
	return b, nil
}

// errCut says that gzip data end too early, as in a copy that was broken off.
var errCut = errors.New("the gzip data are truncated: is the file complete?")

// unpacker is a gzip reader that returns errCut when the data end too early.
type unpacker struct{ *gzip.Reader }

// Read implements [io.Reader].
func (u unpacker) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	return n, cut(err)
}

func cut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// lines reads an input line by line.
type lines struct {
	r    *bufio.Reader
	n    int // of the present line, from 1
	text string
	long bool // the line was cut at maxLine
	err  error
}

// next steps to the following line and reports whether there is one. If the input did not just end,
// err says why not.
func (l *lines) next() bool {
	text, more, err := l.r.ReadLine()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			l.err = fmt.Errorf("read line %d: %w", l.n+1, err)
		}
		return false
	}
	l.n++
	l.text, l.long = string(text), more
	for more && err == nil {
		_, more, err = l.r.ReadLine()
	}
	return true
}

// blank reports whether the line is empty.
func (l *lines) blank() bool { return strings.TrimSpace(l.text) == "" && !l.long }

// row is one line of a table with named columns. It keeps the first error, so that a reader can
// take all columns and check once.
type row struct {
	columns []string
	fields  []string
	line    int  // of the input, from 1
	extras  bool // some of the columns are among extraColumns
	err     error
}

// fail keeps the first error, with its column.
func (r *row) fail(column string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("column %s: %w", column, err)
	}
}

// has reports whether the table has the column and the line has a value in it.
func (r *row) has(column string) bool {
	i := slices.Index(r.columns, column)
	return i >= 0 && strings.TrimSpace(r.fields[i]) != ""
}

func (r *row) text(column string) string {
	i := slices.Index(r.columns, column)
	if i < 0 {
		return ""
	}
	return strings.TrimSpace(r.fields[i])
}

// named reads a text that must not be empty.
func (r *row) named(column string) string {
	text := r.text(column)
	if text == "" {
		r.fail(column, errors.New("is empty"))
	}
	return text
}

func (r *row) whole(column string, least, most int64) int64 {
	n, err := field.Whole(r.text(column), least, most)
	if err != nil {
		r.fail(column, err)
	}
	return n
}

// scaled reads a decimal number as a multiple of 1/scale.
func (r *row) scaled(column string, scale, most int64) int64 {
	n, err := field.Scaled(r.text(column), scale, most)
	if err != nil {
		r.fail(column, err)
	}
	return n
}

// table reads a file whose first line names its columns, and calls each with every further line. An
// error of each leaves the line out. A missing, repeated or unknown column refuses the whole file,
// since every line would be misread.
func table(l *lines, t *Trace, required, optional []string, each func(*row) error) error {
	said := false
	for !said && l.next() {
		said = !l.blank()
	}
	if l.err != nil || !said {
		return l.err
	}
	columns, err := header(l.text, required, optional)
	if err != nil {
		return fmt.Errorf("line %d: %w", max(1, l.n), err)
	}
	extras := slices.ContainsFunc(columns, func(c string) bool { return slices.Contains(extraColumns, c) })
	r := &row{columns: columns, extras: extras}
	for l.next() {
		if l.blank() {
			continue
		}
		err := r.split(l)
		if err == nil {
			if err = each(r); err == nil {
				err = r.err
			}
		}
		if errors.Is(err, errTooMany) {
			return err
		}
		if err != nil {
			t.skip(l.n, l.text, err.Error())
		}
	}
	return l.err
}

// columnNames splits the first line of a table.
func columnNames(line string) []string {
	columns := strings.Split(line, ",")
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	return columns
}

func header(line string, required, optional []string) ([]string, error) {
	columns := columnNames(line)
	for i, c := range columns {
		if slices.Contains(columns[:i], c) {
			return nil, fmt.Errorf("column %q is given twice", field.Shorten(c))
		}
		if !slices.Contains(required, c) && !slices.Contains(optional, c) {
			return nil, fmt.Errorf("unknown column %q: the columns are %s", field.Shorten(c),
				strings.Join(slices.Concat(required, optional), ", "))
		}
	}
	for _, c := range required {
		if !slices.Contains(columns, c) {
			return nil, fmt.Errorf("column %q is missing", c)
		}
	}
	return columns, nil
}

// split cuts a line into fields. A quoted field ends on its line, so that a stray quote costs one
// line only.
func (r *row) split(l *lines) error {
	r.fields, r.line, r.err = r.fields[:0], l.n, nil
	if l.long {
		return fmt.Errorf("longer than %d bytes", maxLine)
	}
	if strings.Contains(l.text, `"`) {
		record, err := csv.NewReader(strings.NewReader(l.text)).Read()
		if err != nil {
			return errors.New("quotes do not match")
		}
		r.fields = record
	} else {
		r.fields = slices.AppendSeq(r.fields, strings.SplitSeq(l.text, ","))
	}
	if len(r.fields) != len(r.columns) {
		return fmt.Errorf("%s under %d columns", Counted(len(r.fields), "field", "fields"), len(r.columns))
	}
	return nil
}
