package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// Body reads the request's body, once. Memory is taken as the bytes come, whatever length the client
// announced, and counts until the request is answered.
func (x *Exchange) Body() ([]byte, error) {
	if x.text != nil {
		return x.text, nil
	}
	var b bytes.Buffer
	most := x.bodyLimit()
	if x.Request.ContentLength > most {
		return nil, tooLarge(most)
	}
	b.Grow(int(max(0, min(x.Request.ContentLength, announcedMost))) + bytes.MinRead)
	var err error
	if x.Idle(func() {
		_, err = b.ReadFrom(countedBody{http.MaxBytesReader(x.Writer, x.Request.Body, most),
			x})
	}); err != nil {
		return nil, bodyError(err)
	}
	x.endReadDeadline()
	x.text = b.Bytes()
	return x.text, nil
}

// announcedMost is how many bytes a body gets at once because its client announced them.
const announcedMost = 16 << 10

func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge(large.Limit)
	}
	if errors.Is(err, errBusy) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return problem.Invalid("read the request: %v", err)
}

func tooLarge(most int64) error {
	return &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
		Detail: fmt.Sprintf("the request is larger than %d KiB", most>>10), Hint: "send it in several requests"}
}

// endReadDeadline ends the time within which a request must have arrived: from now on it is the
// client that waits.
func (x *Exchange) endReadDeadline() {
	_ = http.NewResponseController(x.Writer).SetReadDeadline(time.Time{}) // an error means that the connection is gone
}

// Decode reads a JSON body strictly: an unknown field is refused by name, so that no misspelt field
// is ignored.
func (x *Exchange) Decode(into any) error {
	b, err := x.Body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	return DecodeStrict(b, into)
}

// DecodeStrict reads JSON strictly: it refuses unknown fields by name, and text behind the end.
func DecodeStrict(b []byte, into any) error {
	if err := checkValues(b); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return problem.Invalid("invalid request: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return problem.Invalid("the request has data after its end, at byte %d", dec.InputOffset())
	}
	return nil
}

// Limits of what a body says. In memory `{}` may be a job of some hundred bytes, so that a body's
// length alone does not bound it.
const (
	maxObjects = 200_000   // 10,000 jobs with 20 blocks each
	maxValues  = 2_000_000 // elements of lists and objects
)

// checkValues refuses JSON that would become far larger when it is decoded.
func checkValues(b []byte) error {
	objects, values, text, escaped := 0, 0, false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case text:
			text, escaped = c != '"', c == '\\'
		case c == '"':
			text = true
		case c == '{':
			objects++
		case c == ',' || c == '[':
			values++
		}
	}
	if objects > maxObjects || values > maxValues {
		return &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
			Detail: fmt.Sprintf("the request has %d objects and %d values, at most %d and %d are allowed", objects, values,
				maxObjects, maxValues),
			Hint: "send it in several requests"}
	}
	return nil
}
