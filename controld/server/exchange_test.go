package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
)

// request is a request as net/http reads it from a connection, with a body of an announced length;
// -1 announces none.
func request(t *testing.T, length int64, body io.Reader) *exchange {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/jobs", io.NopCloser(body))
	if length >= 0 {
		head := fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n", length)
		var err error
		if r, err = http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), body))); err != nil {
			t.Fatal(err)
		}
	}
	return &exchange{s: new(Server), caller: new(identity.Caller), w: httptest.NewRecorder(), r: r}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if p := new(api.Problem); !errors.As(err, &p) || codeOf(err) != code {
		t.Errorf("got %v, %s, want %s", err, codeOf(err), code)
	}
}

func TestABodyTakesMemoryAsItComes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := request(t, maxBody, strings.NewReader("{")).body()
	runtime.ReadMemStats(&after)
	if wantCode(t, err, api.CodeInvalid); after.TotalAlloc-before.TotalAlloc > maxBody/8 {
		t.Errorf("one byte of what was announced took %d", after.TotalAlloc-before.TotalAlloc)
	}
}

func TestBodies(t *testing.T) {
	const one = announcedMost
	text := strings.Repeat("0123456789abcdef", 3*one/16)
	for _, length := range []int64{-1, 0, 1, bytes.MinRead, one - 1, one, one + 1, int64(len(text))} {
		want := text
		if length >= 0 {
			want = text[:length]
		}
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)),
			iotest.DataErrReader(strings.NewReader(want))} {
			if got, err := request(t, length, from).body(); err != nil || string(got) != want {
				t.Errorf("length %d: %d bytes, %v", length, len(got), err)
			}
		}
	}
	_, err := request(t, -1, io.LimitReader(endless{}, maxBody+1)).body()
	wantCode(t, err, api.CodeTooLarge)
	_, err = request(t, 5, iotest.ErrReader(errors.New("cut"))).body()
	wantCode(t, err, api.CodeInvalid)
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(b []byte) (int, error) {
	return copy(b, bytes.Repeat([]byte{'x'}, min(len(b), 1<<16))), nil
}
