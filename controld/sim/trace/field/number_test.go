package field

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const hour = int64(time.Hour / time.Millisecond)

// TestStamp agrees with the standard library on dates, with and without zones.
func TestStamp(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		at := time.UnixMilli(24*hour + r.Int64N(200*365*24*hour)).UTC() // in 1970 or later wherever it is read
		zone := time.FixedZone("", (r.IntN(24*60)-12*60)*60)
		for _, text := range []string{
			at.Format("2006-01-02T15:04:05.000Z07:00"), at.In(zone).Format("2006-01-02T15:04:05.000Z07:00"),
			at.Format("2006-01-02 15:04:05.000"),
		} {
			got, err := Time(text)
			if err != nil || got != at.UnixMilli() {
				t.Fatalf("seed %d: Time(%q) = %d, %v; want %d", seed, text, got, err, at.UnixMilli())
			}
		}
	}
	if got, err := Time("2017-09-25T00:01:57.123456789Z"); err != nil || got != 1506297717123 {
		t.Errorf("nanoseconds: %d, %v", got, err)
	}
}

func TestStampRefuses(t *testing.T) {
	for _, text := range []string{
		"", "2017-09-25", "2017-09-25 00:01", "2017-13-25 00:01:57", "2017-02-29 00:01:57", "2100-02-29 00:00:00",
		"2017-04-31 00:00:00",
		"2017-09-00 00:00:00", "1969-12-31 23:59:59", "2017-09-25 24:00:00", "2017-09-25 00:60:00", "2017-09-25x00:01:57",
		"2017/09/25 00:01:57",
		"2017-09-25 00:01:57.", "2017-09-25 00:01:57Q", "2017-09-25 00:01:57+2:00", "2017-09-25 00:01:57+24:00",
		"2017-09-25 0a:01:57",
	} {
		if got, err := Time(text); err == nil {
			t.Errorf("stamp(%q) = %d, want an error", text, got)
		}
	}
}

func TestScaled(t *testing.T) {
	for _, test := range []struct {
		text  string
		scale int64
		want  int64
		fail  string
	}{
		{"81.0", 1000, 81000, ""},
		{" 487.661836 ", 1000, 487662, ""},
		{"0", 1000, 0, ""},
		{"1e-3", 1000, 1, ""},
		{"5.5", 1, 6, ""},
		{"1000", 1000, 1000000, ""},
		{"1000.001", 1000, 0, "1000.001 is more than 1000"},
		{"-0.1", 1000, 0, "negative"},
		{"1e400", 1000, 0, "absurd"},
		{"0x10", 1000, 0, "not a number"},
		{"Inf", 1000, 0, "not a number"},
		{"1_000", 1000, 0, "not a number"},
		{"1.2.3", 1000, 0, "not a number"},
		{"", 1000, 0, "is empty"},
		{strings.Repeat("9", 300), 1, 0, "more than"},
	} {
		got, err := Scaled(test.text, test.scale, 1_000_000)
		switch {
		case test.fail == "" && (err != nil || got != test.want):
			t.Errorf("scaled(%q) = %d, %v; want %d", test.text, got, err, test.want)
		case test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail)):
			t.Errorf("scaled(%q): error %v, want one with %q", test.text, err, test.fail)
		}
	}
}

func TestWhole(t *testing.T) {
	for text, fail := range map[string]string{
		"7": "", " 10 ": "", "": "is empty", "0": "is zero", "-3": "negative", "11": "more than 10", "1.5": "not a whole",
		"x":                    "not a whole",
		"99999999999999999999": "absurd", "+": "not a whole",
	} {
		_, err := Whole(text, 1, 10)
		if (err == nil) != (fail == "") || err != nil && !strings.Contains(err.Error(), fail) {
			t.Errorf("whole(%q): error %v, want one with %q", text, err, fail)
		}
	}
}
