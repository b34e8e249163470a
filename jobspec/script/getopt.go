package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/typo"
)

// Takes says whether a flag takes a value.
type Takes int

// Kinds of values that may follow a flag.
const (
	Nothing Takes = iota
	Value         // --flag VALUE, --flag=VALUE, -fVALUE or -f VALUE
	Perhaps       // --flag or --flag=VALUE, -f or -fVALUE
)

// setting is a flag in the form in which it was written.
type setting struct {
	spec  *Spec
	given string // as written: --part, -p
	value string
	has   bool   // a value was written
	line  int    // line of the script; 0: elsewhere
	where string // the variable or "command line", if the flag is not in the script
	layer int    // place of the flag; a higher layer overrides a lower one
	// component that the flag belongs to, or everyComponent
	component int
}

// blamed reports whether a problem concerns the flag.
func (s setting) blamed(p Problem) bool {
	return p.Flag == s.shown() && p.Line == s.line && p.Where == s.where
}

// shown returns the flag for messages: as written, with its full name if that was shortened.
func (s setting) shown() string {
	if s.spec == nil || len(s.given) <= 2 || s.given == "--"+s.spec.Name || slices.Contains(s.spec.Also,
		strings.TrimPrefix(s.given, "--")) {
		return s.given
	}
	return "--" + s.spec.Name
}

// getopt parses words as getopt_long(3) does. A value may follow a letter directly, several letters
// may share a word, and a value may follow = or be the next word. A name may be shortened to a
// prefix that fits only one flag.
type getopt struct {
	specs []Spec
	each  func(given string, spec *Spec, value string, has bool)
	bad   func(code, given, hint, text string)
}

// read parses the flags at the start of words, and returns the words after them.
func (g *getopt) read(words []string) (rest []string) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == "--":
			return words[i+1:]
		case strings.HasPrefix(w, "--"):
			i += g.readLong(w, words[i+1:])
		case len(w) > 1 && w[0] == '-':
			i += g.readShort(w, words[i+1:])
		default:
			return words[i:]
		}
	}
	return nil
}

// readLong parses --flag, --flag=value or --flag value. It returns how many words of next it used.
func (g *getopt) readLong(word string, next []string) int {
	name, value, has := strings.Cut(word[2:], "=")
	given := "--" + name
	spec, others := g.lookUp(name)
	switch {
	case len(others) > 0:
		g.bad(CodeAmbiguous, given, "write more letters of its name", "may stand for "+strings.Join(others, ", "))
	case spec == nil:
		g.bad(CodeUnknown, given, g.nearestFlag(name), "is not a known flag")
	case spec.Takes == Nothing && has:
		g.bad(CodeNoValue, given, "write "+given, "takes no value")
	case spec.Takes == Value && !has && len(next) == 0:
		g.bad(CodeNoValue, given, spec.example(), "needs a value")
	case spec.Takes == Value && !has:
		g.each(given, spec, next[0], true)
		return 1
	default:
		g.each(given, spec, value, has)
	}
	return 0
}

// readShort parses -f, -fVALUE, -f VALUE, or several letters in one word. It returns how many words
// of next it used.
func (g *getopt) readShort(word string, next []string) int {
	for rest := word[1:]; rest != ""; {
		given := "-" + rest[:1]
		spec := findShort(g.specs, rest[0])
		if spec == nil && len(rest) == len(word)-1 {
			if whole, _ := g.lookUp(strings.SplitN(rest, "=", 2)[0]); whole != nil {
				g.bad(CodeUnknown, word, "write -"+word, "is not a flag: long names begin with two hyphens")
				return 0
			}
		}
		if spec == nil {
			g.bad(CodeUnknown, given, "flags of one letter are written as in sbatch: -N 2, -t 1:00:00", "is not a known flag")
			return 0
		}
		rest = rest[1:]
		switch {
		case spec.Takes == Nothing:
			g.each(given, spec, "", false)
			continue
		case rest != "":
			g.each(given, spec, rest, true)
		case spec.Takes == Perhaps:
			g.each(given, spec, "", false)
		case len(next) == 0:
			g.bad(CodeNoValue, given, spec.example(), "needs a value")
		default:
			g.each(given, spec, next[0], true)
			return 1
		}
		return 0
	}
	return 0
}

// lookUp returns the flag with this name, or the flag that a prefix stands for. If a prefix fits
// several flags, lookUp returns their names.
func (g *getopt) lookUp(name string) (spec *Spec, others []string) {
	for i := range g.specs {
		for _, known := range g.specs[i].names() {
			switch {
			case known == name:
				return &g.specs[i], nil
			case name != "" && strings.HasPrefix(known, name):
				if spec != nil && spec != &g.specs[i] {
					others = append(others, "--"+known)
				} else if spec == nil {
					spec = &g.specs[i]
					others = append(others, "--"+known)
				}
			}
		}
	}
	if len(others) < 2 {
		return spec, nil
	}
	return nil, others
}

func findShort(specs []Spec, letter byte) *Spec {
	for i := range specs {
		if specs[i].Short != 0 && specs[i].Short == letter {
			return &specs[i]
		}
	}
	return nil
}

// nearestFlag returns a hint with the flag whose name is most similar to the written one.
func (g *getopt) nearestFlag(written string) string {
	var known []string
	for i := range g.specs {
		known = append(known, g.specs[i].names()...)
	}
	best := typo.Nearest(written, known)
	if best == "" {
		return "\"rota help submit\" lists the flags"
	}
	return fmt.Sprintf("did you mean --%s?", best)
}
