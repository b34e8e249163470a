package exchange

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
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// request is a request as net/http reads it from a connection, with a body of an announced length;
// -1 announces none.
func request(t *testing.T, length int64, body io.Reader) *Exchange {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/jobs", io.NopCloser(body))
	if length >= 0 {
		head := fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n", length)
		var err error
		if r, err = http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head), body))); err != nil {
			t.Fatal(err)
		}
	}
	return &Exchange{s: new(Service), Caller: new(identity.Caller), Writer: httptest.NewRecorder(), Request: r}
}

func TestABodyTakesMemoryAsItComes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := request(t, maxBody, strings.NewReader("{")).Body()
	runtime.ReadMemStats(&after)
	if servertest.WantCode(t, err, api.CodeInvalid); after.TotalAlloc-before.TotalAlloc > maxBody/8 {
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
			if got, err := request(t, length, from).Body(); err != nil || string(got) != want {
				t.Errorf("length %d: %d bytes, %v", length, len(got), err)
			}
		}
	}
	_, err := request(t, -1, io.LimitReader(endless{}, maxBody+1)).Body()
	servertest.WantCode(t, err, api.CodeTooLarge)
	large := ask("POST", "/v1/x", servertest.Named("ann", 7))
	large.Request = httptest.NewRequest("POST", "/v1/x", strings.NewReader("short"))
	large.Request.ContentLength = maxBody + 1
	if _, err := large.Body(); servertest.CodeOf(err) != api.CodeTooLarge || large.bodyBytes != 0 {
		t.Errorf("a body that is announced as too large: %v, %d bytes of it were read", err, large.bodyBytes)
	}
	_, err = request(t, 5, iotest.ErrReader(errors.New("cut"))).Body()
	servertest.WantCode(t, err, api.CodeInvalid)
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(b []byte) (int, error) {
	return copy(b, bytes.Repeat([]byte{'x'}, min(len(b), 1<<16))), nil
}
