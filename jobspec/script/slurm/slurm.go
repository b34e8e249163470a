// Package slurm parses the values of sbatch flags: times, memory sizes, dependencies, signals and
// mounts. It knows neither flags nor scripts.
package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Error explains why a value is refused.
type Error struct {
	Text, Hint  string
	Unsupported bool // the value is valid in Slurm, but Rota does not support it
}

func bad(hint, format string, args ...any) *Error {
	return &Error{Text: fmt.Sprintf(format, args...), Hint: hint}
}

func unsupported(hint, format string, args ...any) *Error {
	return &Error{Text: fmt.Sprintf(format, args...), Hint: hint, Unsupported: true}
}

// ImageVariable names the image of a job for its steps, as in the Slurm plugin pyxis.
const ImageVariable = "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image"

// Memory parses a size: a number of MiB, or one followed by K, M, G or T.
func Memory(text string) (jobspec.Bytes, error) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		if strings.Trim(text, "0") == "" {
			return 0, nil
		}
		text += "M"
	}
	upper := strings.ToUpper(text)
	for _, long := range []string{"IB", "B"} {
		short, found := strings.CutSuffix(upper, long)
		if found && strings.IndexAny(short, "KMGT") == len(short)-1 && short != "" {
			upper = short
			break
		}
	}
	return jobspec.ParseSize(upper)
}

// signals are the signals that can ask a job to stop, by number.
var signals = map[string]string{
	"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "10": "USR1", "12": "USR2", "14": "ALRM", "15": "TERM", "18": "CONT",
	"28": "WINCH",
}

// EarlySignal is the signal that a job gets before its time limit.
type EarlySignal struct {
	Name        string          // full name, such as SIGUSR1
	Ahead       jobspec.Seconds // time before the limit: by default one minute
	Batch       bool            // B: only the shell of the batch script gets the signal
	Reservation bool            // R: the job may overlap with a reservation
}

// Signal parses [R|B:]SIG[@SECONDS].
func Signal(text string) (EarlySignal, *Error) {
	s, rest := EarlySignal{Ahead: 60}, text
	if to, behind, found := strings.Cut(text, ":"); found {
		if strings.Trim(strings.ToUpper(to), "RB") != "" || to == "" {
			return s, bad("write B:USR1@120", "%q: %q is neither R nor B", text, to)
		}
		s.Batch, s.Reservation = strings.ContainsAny(to, "Bb"), strings.ContainsAny(to, "Rr")
		rest = behind
	}
	given, seconds, timed := strings.Cut(rest, "@")
	if timed {
		n, err := strconv.Atoi(seconds)
		if err != nil || n < 0 || n > 65535 {
			return s, bad("", "%q: %q is not a number of seconds from 0 to 65535", text, seconds)
		}
		s.Ahead = jobspec.Seconds(max(n, 1))
	}
	name := strings.TrimPrefix(strings.ToUpper(given), "SIG")
	if known, ok := signals[name]; ok {
		name = known
	}
	for _, known := range signals {
		if name == known {
			s.Name = "SIG" + name
			return s, nil
		}
	}
	return s, bad("write one of USR1, USR2, TERM, INT, HUP, QUIT, ALRM, CONT and KILL",
		"%q: %q is not a signal that can stop a job", text, given)
}

// Mounts parses a list of SOURCE[:TARGET[:FLAGS]].
func Mounts(text string) ([]jobspec.Mount, *Error) {
	var list []jobspec.Mount
	for item := range strings.SplitSeq(text, ",") {
		parts := strings.Split(item, ":")
		m := jobspec.Mount{Source: parts[0], Target: parts[len(parts)-1]}
		if len(parts) > 1 {
			m.Target = parts[1]
		}
		if len(parts) > 3 || m.Source == "" || m.Target == "" {
			return list, bad("write /source:/target or /source:/target:ro", "%q is not a mount", item)
		}
		if len(parts) == 3 {
			for flag := range strings.SplitSeq(parts[2], "+") {
				switch flag {
				case "ro":
					m.ReadOnly = true
				case "rw", "rbind", "bind":
				default:
					return list, unsupported("only ro and rw are known", "%q: a mount cannot have the flag %q", m.Source, flag)
				}
			}
		}
		list = append(list, m)
	}
	return list, nil
}
