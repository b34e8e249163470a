package controld

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rota-hpc/rota/controld/api"
)

func request(length int64, body io.Reader) *exchange {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/jobs", nil)
	r.ContentLength, r.Body = length, io.NopCloser(body)
	return &exchange{w: w, r: r}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if p := new(api.Problem); !errors.As(err, &p) || p.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestABodyTakesMemoryAsItComes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := request(maxBody, strings.NewReader("{")).body(nil)
	runtime.ReadMemStats(&after)
	if wantCode(t, err, api.CodeInvalid); after.TotalAlloc-before.TotalAlloc > maxBody/8 {
		t.Errorf("one byte of what was announced took %d", after.TotalAlloc-before.TotalAlloc)
	}
}

func TestBodies(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 3*minBody/16)
	for _, length := range []int64{-1, 0, 1, minBody - 1, minBody, minBody + 1, int64(len(text))} {
		want := text
		if length >= 0 {
			want = text[:length]
		}
		for _, buffer := range [][]byte{nil, make([]byte, 0, 100), make([]byte, 0, minBody)} {
			for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(want))} {
				if got, err := request(length, from).body(buffer); err != nil || string(got) != want {
					t.Errorf("length %d, buffer of %d: %d bytes, %v", length, cap(buffer), len(got), err)
				}
			}
		}
	}
	_, err := request(-1, io.LimitReader(endless{}, maxBody+1)).body(nil)
	wantCode(t, err, api.CodeTooLarge)
	_, err = request(5, iotest.ErrReader(errors.New("cut"))).body(nil)
	wantCode(t, err, api.CodeInvalid)
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(b []byte) (int, error) {
	return copy(b, bytes.Repeat([]byte{'x'}, min(len(b), 1<<16))), nil
}
