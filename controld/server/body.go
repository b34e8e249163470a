package server

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

// body reads the request's body, of maxBody bytes at most. Memory is taken as the bytes come,
// whatever length the client announced.
func (x *exchange) body() ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(max(0, min(x.r.ContentLength, announcedMost))) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, maxBody)); err != nil {
		return nil, bodyError(err)
	}
	x.endReadDeadline()
	return b.Bytes(), nil
}

// announcedMost is how many bytes a body gets at once because its client announced them.
const announcedMost = 64 << 10

func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &api.Problem{Status: http.StatusRequestEntityTooLarge, Code: api.CodeTooLarge,
			Detail: fmt.Sprintf("the request is larger than %d MiB", maxBody>>20), Hint: "send it in several requests"}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return problem.Invalid("read the request: %v", err)
}

// endReadDeadline ends the time within which a request must have arrived: from now on it is the
// client that waits.
func (x *exchange) endReadDeadline() {
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{}) // an error means that the connection is gone
}

// decode reads a JSON body strictly: an unknown field is refused by name, so that no misspelt field
// is ignored.
func (x *exchange) decode(into any) error {
	b, err := x.body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	return decodeStrict(b, into)
}

func decodeStrict(b []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return problem.Invalid("the request is not what this route takes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); err != io.EOF {
		return problem.Invalid("the request has something after its end, at byte %d", dec.InputOffset())
	}
	return nil
}
