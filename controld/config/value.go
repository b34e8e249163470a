package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec/duration"
)

// Bounds of values.
const (
	maxCount    = 1_000_000_000
	maxDuration = 100 * 365 * 24 * time.Hour
)

// count reads a whole number from least up.
func count[T int | int64](least int64, field func(*cluster.Policy) *T) func(*cluster.Policy, string) error {
	return between(least, maxCount, field)
}

// between reads a whole number from least to most.
func between[T int | int64](least, most int64, field func(*cluster.Policy) *T) func(*cluster.Policy, string) error {
	return func(p *cluster.Policy, text string) error {
		n, err := whole(text, least, most)
		*field(p) = T(n)
		return err
	}
}

// orNone reads thousandths; none are kept as a negative number, since 0 is left to the policy.
func orNone(field func(*cluster.Policy) *int64) func(*cluster.Policy, string) error {
	return func(p *cluster.Policy, text string) error {
		n, err := whole(text, 0, 1000)
		if *field(p) = n; n == 0 {
			*field(p) = -1
		}
		return err
	}
}

// orOff sets a tunable; 0 switches its rule off.
func orOff(field func(*cluster.Policy) *int64) func(*cluster.Policy, string) error {
	return func(p *cluster.Policy, text string) error {
		n, err := whole(text, 0, cluster.MostTunable)
		if *field(p) = n; n == 0 {
			*field(p) = -1
		}
		return err
	}
}

func truth(text string) (bool, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		err = fmt.Errorf("%q is not true or false", text)
	}
	return on, err
}

func whole(text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is not a whole number from %d to %d", text, least, most)
	}
	return n, nil
}

// lasting reads a duration of at least so many milliseconds.
func lasting(least int64, field func(*cluster.Policy) *int64) func(*cluster.Policy, string) error {
	return func(p *cluster.Policy, text string) error {
		ms, err := milliseconds(text)
		if err == nil && ms < least {
			err = fmt.Errorf("%q is zero; write more, or leave it out", text)
		}
		*field(p) = ms
		return err
	}
}

func milliseconds(text string) (int64, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("%s has no unit; write %q", text, text+"s")
	}
	ns, ok := duration.Parse(text)
	d := time.Duration(ns)
	if !ok || d > maxDuration {
		return 0, fmt.Errorf("%q is not a duration of at most 100 years; write a number with ms, s, m, h or d", text)
	}
	return d.Milliseconds(), nil
}

func graceWeight(p *cluster.Policy, text string) error {
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s >= 0 && s <= 1e6) {
		return fmt.Errorf("%s is not a number from 0 to 1000000", text)
	}
	if p.GraceWeight = int64(math.Round(s * 1000)); p.GraceWeight == 0 {
		p.GraceWeight = -1
	}
	return nil
}

func maxPreempts(p *cluster.Policy, text string) error {
	if text == "inf" {
		p.MaxPreempts = -1
		return nil
	}
	n, err := whole(text, 1, maxCount)
	if err != nil {
		return fmt.Errorf("%w, nor \"inf\"", err)
	}
	p.MaxPreempts = int(n)
	return nil
}

func minTurn(p *cluster.Policy, text string) error {
	if text == "never" {
		p.MinTurnMS = -1
		return nil
	}
	return lasting(1, minTurnMS)(p, text)
}

func influence(p *cluster.Policy, text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 10) {
		return fmt.Errorf("%s is not a number from 0 to 10", text)
	}
	p.UsageInfluence = int(math.Round(n * 1000))
	return nil
}

// fits are the places for single workers that a policy can be told to take.
var fits = []string{"first", "best", "worst", "random", "frag"}

func placement(p *cluster.Policy, text string) error {
	if !slices.Contains(fits, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(fits, ", "))
	}
	p.Placement = text
	return nil
}

func seed(p *cluster.Policy, text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a whole number from 0 up", text)
	}
	p.Seed = n
	return nil
}

func randomObeysP(p *cluster.Policy, text string) error {
	obeys, err := truth(text)
	p.RandomUncapped = !obeys
	return err
}

// Text writes a policy as a file could have it: a block with every parameter that differs from the
// policy's default.
func Text(p *cluster.Policy) string {
	name := cmp.Or(p.Name, "standard")
	params := slices.DeleteFunc(allParameters(), func(param parameter) bool {
		return param.text(p) == "" || !slices.Contains(Parameters(name), param.name)
	})
	longest := 0
	for _, param := range params {
		longest = max(longest, len(param.name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "policy %q {\n", name)
	for _, param := range params {
		fmt.Fprintf(&b, "  %-*s = %s\n", longest, param.name, param.text(p))
	}
	return b.String() + "}\n"
}

func number(field func(*cluster.Policy) *int) func(*cluster.Policy) string {
	return func(p *cluster.Policy) string { return strconv.Itoa(*field(p)) }
}

// always writes a duration, span one that is left to the policy where it is 0.
func always(field func(*cluster.Policy) *int64) func(*cluster.Policy) string {
	return func(p *cluster.Policy) string { return durationText(*field(p)) }
}

func span(field func(*cluster.Policy) *int64) func(*cluster.Policy) string {
	return func(p *cluster.Policy) string {
		if *field(p) == 0 {
			return ""
		}
		return durationText(*field(p))
	}
}

func durationText(ms int64) string {
	text := (time.Duration(ms) * time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return quoted(text)
}

func minTurnText(p *cluster.Policy) string {
	if p.MinTurnMS < 0 {
		return `"never"`
	}
	return span(minTurnMS)(p)
}

func randomObeysPText(p *cluster.Policy) string {
	if !p.RandomUncapped {
		return ""
	}
	return "false"
}

// orWord writes a number that is left to the policy where it is 0, and a word where it is negative.
func orWord(n int64, word string) string {
	switch {
	case n == 0:
		return ""
	case n < 0:
		return word
	}
	return strconv.FormatInt(n, 10)
}

// fraction writes thousandths that are left to the policy where they are 0, and are none where they
// are negative.
func fraction(thousandths int64) string {
	if thousandths == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(max(0, thousandths))/1000, 'f', -1, 64)
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return strconv.Quote(text)
}
