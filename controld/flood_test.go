package controld

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// heap returns the bytes of the heap that are in use, this test's clients included.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// open connects n times to addr and writes text to each.
func open(t testing.TB, addr string, n int, text string) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	return conns
}

// stillAnswers fails unless other callers are answered soon.
func stillAnswers(t testing.TB, s *running, when string) {
	t.Helper()
	begin := time.Now()
	if _, err := s.client(user(1001)).Submit(t.Context(), "", job("of-another")); err != nil {
		t.Errorf("%s another user's job is refused: %v", when, err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("%s another user's job takes %v to submit", when, took)
	}
}

// TestSlowConnectionsAndAnnouncedBodies is the attack of 800 connections that send a byte of a
// request now and then, 200 that announce large bodies and never send them, and 40 that send as
// much of a body as they may and never end it. Others are served meanwhile, and the heap stays
// small.
func TestSlowConnectionsAndAnnouncedBodies(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.ready()
	stillAnswers(t, s, "before")
	before := heap()
	at := s.addrs.Loopback
	head := "POST /v1/jobs HTTP/1.1\r\nHost: " + at + "\r\nContent-Type: application/json\r\n"
	slow := open(t, at, 800, "POST /v1/jobs HTTP/1.1\r\nHo")
	open(t, at, 200, head+"Content-Length: 16000000\r\n\r\n")
	for range 20 {
		for _, c := range slow {
			_, _ = c.Write([]byte("x")) // it may be closed by now
		}
	}
	stillAnswers(t, s, "among slow connections")
	if grew := heap() - before; grew > 64<<20 {
		t.Errorf("800 slow connections and 200 announced bodies take %d MiB", grew>>20)
	}

	large := open(t, at, 40, head+"Content-Length: 16000000\r\n\r\n{\"jobs\":[")
	var sent sync.WaitGroup
	refused := make([]bool, len(large))
	for i, c := range large {
		sent.Go(func() {
			_ = c.SetDeadline(time.Now().Add(deadline))
			text := []byte(strings.Repeat(" ", 1<<20))
			for range 15 {
				if _, err := c.Write(text); err != nil {
					break
				}
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			refused[i] = err == nil && resp.StatusCode == http.StatusServiceUnavailable || err != nil && !isTimeout(err)
		})
	}
	sent.Wait()
	stillAnswers(t, s, "among large bodies")
	if grew := heap() - before; grew > 256<<20 {
		t.Errorf("40 bodies of 15 MiB take %d MiB", grew>>20)
	}
	n := 0
	for _, r := range refused {
		if r {
			n++
		}
	}
	if n < len(large)-5 {
		t.Errorf("%d of %d bodies of one user were refused: it may have 64 MiB at once", n, len(large))
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// TestBodiesOfStrangers is the attack of 24 connections without a certificate that send 64 MiB
// each. None of it is read: the caller is refused before.
func TestBodiesOfStrangers(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.ready()
	before := heap()
	for _, path := range []string{"/v1/jobs", "/v1/nodes/n1/report", "/v1/join", "/nowhere"} {
		for range 6 {
			c, err := tls.Dial("tcp", s.addrs.HTTP, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(deadline))
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: c1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{",
				path, 64<<20)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := http.StatusUnauthorized
			if path == "/v1/join" {
				want = http.StatusRequestEntityTooLarge
			}
			if resp.StatusCode != want || !resp.Close {
				t.Errorf("%s: %s, the connection is closed: %v", path, resp.Status, resp.Close)
			}
		}
	}
	if grew := heap() - before; grew > 32<<20 {
		t.Errorf("24 strangers take %d MiB", grew>>20)
	}
	stillAnswers(t, s, "among strangers")
}

// TestManySmallValues is the attack of a body that is small and becomes large when it is decoded:
// five million jobs of two bytes each.
func TestManySmallValues(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.ready()
	var before, after runtime.MemStats
	for _, text := range []string{`{"jobs":[` + strings.Repeat("{},", 5_000_000) + `{}]}`,
		`{"name":"a","meta":{` + strings.Repeat(`"a":"",`, 2_000_001) + `"b":""}}`} {
		body := strings.NewReader(text)
		runtime.ReadMemStats(&before)
		resp, err := http.Post("http://"+s.addrs.Loopback+"/v1/jobs", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		runtime.ReadMemStats(&after)
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("answered %s", resp.Status)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 128<<20 {
			t.Errorf("it took %d MiB to refuse %d MiB", took>>20, len(text)>>20)
		}
	}
	_, err := s.client(user(1000)).Submit(t.Context(), "", job("a"))
	if err != nil {
		t.Errorf("a usual submission: %v", err)
	}
}
