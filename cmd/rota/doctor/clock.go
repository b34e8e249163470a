package doctor

import (
	"context"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// Limits of the clock. Certificates tolerate a clock that is a day off; users compare times of
// several machines.
const (
	offsetWarn = time.Second
	offsetBad  = 24 * time.Hour
)

// clockError is the state of a clock that is not synchronised.
const clockError = 5

// synchronised asks the kernel whether a time daemon keeps the clock in step.
func (in *inspection) synchronised(context.Context) []finding {
	const name = "synchronised"
	const fix = "run chronyd, systemd-timesyncd or ntpd; in a virtual machine, synchronise with the host's clock"
	state, t, err := in.timex()
	switch {
	case err != nil:
		return one(note, name, "", "the kernel does not say whether the clock is synchronised: %v", err)
	case state == clockError || t.Status&unix.STA_UNSYNC != 0:
		return one(warn, name, fix, "no time daemon keeps the clock of this machine in step")
	}
	return fine(name, "the kernel estimates the clock's error as %s", human(time.Duration(t.Maxerror)*time.Microsecond))
}

// reading is the time of another machine, from the Date header of an HTTP answer.
type reading struct {
	addr           string
	sent, received time.Time
	date           time.Time // whole seconds
}

// offset returns the least amount by which the other clock is ahead; 0 if both may show the same
// time.
func (r reading) offset() time.Duration {
	low, high := r.date.Sub(r.received), r.date.Add(time.Second).Sub(r.sent)
	switch {
	case low > 0:
		return low
	case high < 0:
		return high
	}
	return 0
}

// offsets compares the controllers' clocks with this machine's clock.
func (in *inspection) offsets(ctx context.Context) []finding {
	readings := in.readClocks(ctx)
	if len(readings) == 0 && in.cluster.reading != nil {
		readings = append(readings, *in.cluster.reading)
	}
	var found []finding
	for _, r := range readings {
		d := r.offset()
		far := "ahead"
		if d < 0 {
			far = "behind"
		}
		switch {
		case d.Abs() > offsetBad:
			found = append(found, one(bad, "offset", "set the clock, and keep it synchronised with chronyd", "%s is %s %s: "+
				"certificates are refused if clocks differ by more than a day", r.addr, human(d.Abs()), far)...)
		case d.Abs() > offsetWarn:
			found = append(found, one(warn, "offset", "set the wrong clock, and keep it synchronised with chronyd",
				"%s is %s %s: times in logs and in the queue will not match", r.addr, human(d.Abs()), far)...)
		default:
			found = append(found, fine("offset", "the clock of %s is the same to within a second", r.addr)...)
		}
	}
	return found
}

// readClocks asks each controller for its time. The certificate for this request is readable by
// root only.
func (in *inspection) readClocks(ctx context.Context) []reading {
	dirs := in.settings.dataDirs()
	if in.uid != 0 || len(dirs) == 0 {
		return nil
	}
	cred, err := pki.Load(in.path(pki.Dir(dirs[0].path)))
	if err != nil {
		return nil // the check of certificates reports it
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: cred.Client(pki.Controller),
		DisableKeepAlives: true}}
	var list []reading
	for _, c := range in.cluster.controllers {
		addr := hostPort(c.HTTP)
		if addr == "" {
			continue
		}
		if r, err := in.readClock(ctx, client, addr); err == nil {
			r.addr = "controller " + c.Name
			list = append(list, r)
		}
	}
	return list
}

func (in *inspection) readClock(ctx context.Context, client *http.Client, addr string) (r reading, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/v1/healthz", nil)
	if err != nil {
		return r, err
	}
	r.sent = in.now()
	answer, err := client.Do(req)
	if err != nil {
		return r, err
	}
	r.received = in.now()
	r.date, err = http.ParseTime(answer.Header.Get("Date"))
	answer.Body.Close()
	return r, err
}

// hostPort returns an address without its scheme.
func hostPort(addr string) string {
	return strings.TrimPrefix(strings.TrimPrefix(addr, "https://"), "http://")
}
