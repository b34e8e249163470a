package slurm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestMemory(t *testing.T) {
	for text, want := range map[string]jobspec.Bytes{
		"1000": 1000 * jobspec.MiB, "64G": 64 * jobspec.GiB, "64g": 64 * jobspec.GiB, "64GB": 64 * jobspec.GiB,
		"64GiB": 64 * jobspec.GiB, "2T": 2 * jobspec.TiB,
		"512M": 512 * jobspec.MiB, "8192K": 8 * jobspec.MiB, "1.5G": 1536 * jobspec.MiB, "64gb": 64 * jobspec.GiB,
	} {
		got, err := Memory(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "G", "-1", "1X", "1GG", "B", "IB", "1 G"} {
		if got, err := Memory(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestTimeLimit(t *testing.T) {
	for text, want := range map[string]jobspec.Seconds{
		"30": 1800, "10:30": 630, "1:00:00": 3600, "2-12": 216000, "2-12:30": 217800, "2-12:30:15": 217815, "30m": 1800,
		"99999-0": 99999 * 86400,
	} {
		if got, unlimited, ok := TimeLimit(text); got != want || unlimited || !ok {
			t.Errorf("%s: got %v, %v, %v, want %v", text, got, unlimited, ok, want)
		}
	}
	for _, text := range []string{"unlimited", "INFINITE", "-1", "0", "0-00:00:00"} {
		if _, unlimited, ok := TimeLimit(text); !unlimited || !ok {
			t.Errorf("%s: it is a limit, or no time", text)
		}
	}
	for _, text := range []string{"", "x", "1:2:3:4", "1-", "-", "1:", "30x", "9999999999", "0m"} {
		if got, _, ok := TimeLimit(text); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestParseMoment(t *testing.T) {
	for text, want := range map[string]Moment{
		"now":              {FromNow: true},
		"now+90":           {FromNow: true, Ahead: 90},
		"NOW+2Days":        {FromNow: true, Ahead: 2 * 86400},
		"today":            {FromNow: true},
		"tomorrow":         {Dated: true, DaysAhead: 1},
		"fika":             {Hour: 15},
		"16:05":            {Hour: 16, Minute: 5},
		"4:00PM":           {Hour: 16},
		"12:15 am":         {Minute: 15},
		"12/24":            {Dated: true, Month: 12, Day: 24},
		"12/24-20:00:01":   {Dated: true, Month: 12, Day: 24, Hour: 20, Second: 1},
		"011527":           {Dated: true, Year: 2027, Month: 1, Day: 15},
		"1.15.2027":        {Dated: true, Year: 2027, Month: 1, Day: 15},
		"2027-01-15T08:30": {Dated: true, Year: 2027, Month: 1, Day: 15, Hour: 8, Minute: 30},
	} {
		if got, ok := ParseMoment(text); !ok || got != want {
			t.Errorf("%s: got %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "someday", "now1hour", "now+1year", "now+econd", "now+99999999999weeks", "24:00", "1:2:3:4", "13:00pm", "0:30am",
		"1:60", "1:00:60", "T08:00",
		"0000-01-01", "2027-13-01", "2027-01-32", "27-01-15", "1/2/3/4", "00/15", "2027-01-15T", "12345", "2027-01-15T:",
	} {
		if got, ok := ParseMoment(text); ok {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestDependencies(t *testing.T) {
	for text, want := range map[string][]jobspec.Dependency{
		"afterok:1:2,afterany:3": {{Type: "afterok", Jobs: []string{"1", "2"}}, {Type: "afterany", Jobs: []string{"3"}}},
		"after:1+5:2,after:3+5": {{Type: "after", Jobs: []string{"1", "3"}, Delay: 300},
			{Type: "after", Jobs: []string{"2"}}},
		"afterany:1?afterany:2":  {{Type: "afterany", Jobs: []string{"1", "2"}, Match: "any"}},
		"singleton, afterok:1_*": {{Type: "singleton"}, {Type: "afterok", Jobs: []string{"1"}}},
	} {
		if got, err := Dependencies(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for text, unsupported := range map[string]bool{
		"": false, "123": false, "aftrok:1": false, "afterok": false, "afterok:x": false, "afterok:1+5": false,
		"singleton:1":                   false,
		"afterok:1,afterok:2?afterok:3": false, "expand:4": true, "afterok:1?afterany:2": true, "afterok:1:2?afterok:3": true,
		"afterok" + strings.Repeat(":1", jobspec.MaxDependencyJobs+1): false,
	} {
		if got, err := Dependencies(text); err == nil || err.Unsupported != unsupported || err.Text == "" {
			t.Errorf("%.40s: got %+v, %v", text, got, err)
		}
	}
}

func TestSignal(t *testing.T) {
	for text, want := range map[string]EarlySignal{
		"USR1":          {Name: "SIGUSR1", Ahead: 60},
		"B:sigterm@120": {Name: "SIGTERM", Ahead: 120, Batch: true},
		"r:10@0":        {Name: "SIGUSR1", Ahead: 1, Reservation: true},
		"RB:USR2@5":     {Name: "SIGUSR2", Ahead: 5, Batch: true, Reservation: true},
	} {
		if got, err := Signal(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "FOO", "X:USR1", ":USR1", "USR1@", "USR1@soon", "USR1@65536", "SEGV"} {
		if got, err := Signal(text); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestMounts(t *testing.T) {
	got, err := Mounts("/a,/b:/c,/d:/e:ro+rbind")
	if want := []jobspec.Mount{{Source: "/a", Target: "/a"}, {Source: "/b", Target: "/c"},
		{Source: "/d", Target: "/e", ReadOnly: true}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for text, unsupported := range map[string]bool{"": false, ":/a": false, "/a:": false, "/a:/b:ro:z": false,
		"/a:/b:umask=0": true} {
		if got, err := Mounts(text); err == nil || err.Unsupported != unsupported {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func TestFeatures(t *testing.T) {
	for text, want := range map[string]string{
		"a":               "[a] false []",
		"a&b,c":           "[a b c] false []",
		"b|a":             "[a|b] false []",
		"a & ( c | b )":   "[a b|c] false []",
		"(a&b)|c":         "[a|c b|c] false []",
		"(a|b)&(a|b)":     "[a|b] false []",
		"[a|b]":           "[a|b] true []",
		"[a&b]":           "[a b] false []",
		"a*2":             "[a] false [2]",
		"[(a&b)*2&c*1]":   "[a b c] false [2 1]",
		"a&b|c":           `error true "a&b|c": & and | are mixed without parentheses`,
		"a&!b":            `error true "a&!b": brackets inside of others, and !, are not supported`,
		"a&":              `error false "a&": a feature or a parenthesis is missing`,
		"(a":              `error false "(a": a feature or a parenthesis is missing`,
		"a)":              `error false "a)": a feature or a parenthesis is missing`,
		"a*x":             `error false "a*x": a count of nodes is missing after *`,
		"((((((((((a))))": `error false "((((((((((a))))": a feature or a parenthesis is missing`,
	} {
		w, err := Features(text)
		got := fmt.Sprint(w.Features, w.Same, w.Counts)
		if got = strings.ReplaceAll(got, "]false", "] false"); err != nil {
			got = fmt.Sprintf("error %v %s", err.Unsupported, err.Text)
		}
		if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, op := range []string{"|", "&"} {
		if _, err := Features(strings.Repeat("a"+op, 300_000) + "a"); err == nil {
			t.Error("no bound")
		}
	}
}
