package config

import (
	"strings"
	"testing"
	"time"
)

func TestTimeouts(t *testing.T) {
	ms := func(h, e, l time.Duration) Timeouts {
		return Timeouts{h * time.Millisecond, e * time.Millisecond, l * time.Millisecond}
	}
	for text, want := range map[string]Timeouts{
		``:                                   ms(300, 300, 200),
		`timeouts {}`:                        ms(300, 300, 200),
		`timeouts { heartbeat = "1500ms" }`:  ms(1500, 1500, 1000),
		`timeouts { election = "400ms" }`:    ms(300, 400, 200),
		`timeouts { leader_lease = "50ms" }`: ms(300, 300, 50),
		"timeouts {\nheartbeat = \"10s\"\nelection = \"10s\"\nleader_lease = \"10s\"\n}": ms(10_000, 10_000, 10_000),
	} {
		f, err := Parse("controld.hcl", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Timeouts.Complete(); got != want {
			t.Errorf("%s: %v", text, got)
		}
		if f.Replicated() != nil {
			t.Errorf("%s: it is replicated", text)
		}
		if f.OfController() != strings.HasPrefix(text, "timeouts") {
			t.Errorf("%s: of a controller: %t", text, f.OfController())
		}
	}
	for text, want := range map[string]string{
		`timeouts { heartbeat = "49ms" }`:     `heartbeat = "49ms": must be from 50ms to 10s`,
		`timeouts { heartbeat = "10001ms" }`:  `heartbeat = "10.001s": must be from 50ms to 10s`,
		`timeouts { leader_lease = "49ms" }`:  `leader_lease = "49ms": must be from`,
		`timeouts { election = "11s" }`:       `election = "11s": must be from`,
		`timeouts { election = "299ms" }`:     `election = "299ms" is less than heartbeat = "300ms"`,
		`timeouts { leader_lease = "301ms" }`: `leader_lease = "301ms" is more than heartbeat = "300ms"`,
		`timeouts { heartbeat = "soon" }`:     `soon`,
		`timeouts { hartbeat = "1s" }`:        `heartbeat`,
		"timeouts {}\ntimeouts {}":            `timeouts`,
	} {
		if _, err := Parse("controld.hcl", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
