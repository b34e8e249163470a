// Package pmi is the process manager's end of PMI, by which the processes of an MPI program find
// each other. They put their addresses into a common table, and wait for each other. It speaks the
// text protocols of PMI-1 and PMI-2.
package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds of what processes may send. Those of names, keys and values are told to them.
const (
	maxName, maxKey, maxValue = 256, 64, 1024
	maxMessage                = 1 << 16 // bytes of one message
)

// pair is one NAME=VALUE of a message.
type pair struct{ name, value string }

// message is what one end tells the other: a command and its values, in order.
type message []pair

// get returns the value of a name, "" for none.
func (m message) get(name string) string {
	for _, p := range m {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// command is what the message asks for.
func (m message) command() string { return m.get("cmd") }

// errTooLong ends the connection with a process that sends more than a message may have.
var errTooLong = fmt.Errorf("a message has more than %d bytes", maxMessage)

// readLine reads a message of PMI-1: pairs with blanks between them, in a line. A value has no blanks,
// but that of the last pair may.
func readLine(r *bufio.Reader) (message, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxMessage:
			return nil, errTooLong
		case err == nil:
			return parseLine(strings.TrimRight(string(line), "\r\n"))
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

func parseLine(line string) (message, error) {
	var m message
	for rest := strings.TrimLeft(line, " "); rest != ""; {
		name, after, found := strings.Cut(rest, "=")
		if !found || name == "" || strings.Contains(name, " ") {
			return nil, fmt.Errorf("%q is no NAME=VALUE", rest)
		}
		value, next, _ := strings.Cut(after, " ")
		if name == "value" { // it goes on to the end of the line
			value, next = after, ""
		}
		m = append(m, pair{name, value})
		rest = strings.TrimLeft(next, " ")
	}
	if len(m) == 0 {
		return nil, errors.New("an empty message")
	}
	return m, nil
}

// line writes a message of PMI-1.
func (m message) line() []byte {
	var b []byte
	for i, p := range m {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, p.name+"="+p.value...)
	}
	return append(b, '\n')
}

// lengthDigits is how many digits the length in front of a message of PMI-2 has.
const lengthDigits = 6

// readBlock reads a message of PMI-2: its length, and pairs that end in a semicolon. One that belongs to
// a value is written twice.
func readBlock(r io.Reader) (message, error) {
	var head [lengthDigits]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(head[:])))
	switch {
	case err != nil || n < 0:
		return nil, fmt.Errorf("%q is no length of a message", head)
	case n > maxMessage:
		return nil, errTooLong
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return parseBlock(string(text))
}

func parseBlock(text string) (message, error) {
	var m message
	for text != "" {
		name, after, found := strings.Cut(text, "=")
		if !found || name == "" || strings.Contains(name, ";") {
			return nil, fmt.Errorf("%q is no NAME=VALUE;", text)
		}
		var value strings.Builder
		for {
			part, rest, ended := strings.Cut(after, ";")
			value.WriteString(part)
			if !ended {
				return nil, fmt.Errorf("the value of %s does not end in a semicolon", name)
			}
			if !strings.HasPrefix(rest, ";") {
				text = rest
				break
			}
			value.WriteByte(';')
			after = rest[1:]
		}
		m = append(m, pair{name, value.String()})
	}
	if len(m) == 0 {
		return nil, errors.New("an empty message")
	}
	return m, nil
}

// block writes a message of PMI-2.
func (m message) block() []byte {
	var b strings.Builder
	for _, p := range m {
		b.WriteString(p.name + "=" + strings.ReplaceAll(p.value, ";", ";;") + ";")
	}
	return fmt.Appendf(nil, "%*d%s", lengthDigits, b.Len(), b.String())
}
