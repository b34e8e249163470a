package express

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// reply is an answer that is sent as a whole. Its memory serves one answer after the other.
type reply struct {
	header http.Header
	code   int // 0 until it is said
	body   bytes.Buffer
	out    bytes.Buffer
}

// keepMost is how many bytes of an answer are worth keeping the memory of.
const keepMost = 16 << 10

// reset forgets the last answer.
func (w *reply) reset() {
	clear(w.header)
	w.code = 0
	if w.out.Cap() > keepMost {
		w.body, w.out = bytes.Buffer{}, bytes.Buffer{}
	}
	w.body.Reset()
	w.out.Reset()
}

// Header implements http.ResponseWriter.
func (w *reply) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *reply) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// oneLine keeps a value from ending its line, as http.Header.Write does.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// send writes the answer to c in one piece, and says that the connection ends if it does not stay.
func (w *reply) send(c io.Writer, stays bool) error {
	w.WriteHeader(http.StatusOK)
	w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
	if !stays {
		w.header.Set("Connection", "close")
	}
	b := append(w.out.AvailableBuffer(), "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(w.code), 10)
	b = append(append(append(b, ' '), http.StatusText(w.code)...), "\r\nDate: "...)
	b = append(time.Now().UTC().AppendFormat(b, http.TimeFormat), "\r\n"...)
	for name, values := range w.header {
		for _, v := range values {
			b = append(append(append(append(b, name...), ": "...), oneLine.Replace(v)...), "\r\n"...)
		}
	}
	w.out.Write(append(b, "\r\n"...))
	w.out.Write(w.body.Bytes())
	_, err := c.Write(w.out.Bytes())
	return err
}
