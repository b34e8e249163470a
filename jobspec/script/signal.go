package script

import (
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// signal reads [R|B:]SIG[@SECONDS].
func (a *asked) signal(s setting) {
	text := s.value
	if to, rest, found := strings.Cut(text, ":"); found {
		if strings.Trim(strings.ToUpper(to), "RB") != "" || to == "" {
			a.bad(s, "write B:USR1@120", "%q: %q is neither R nor B", s.value, to)
			return
		}
		text = rest
	}
	name, ahead, timed := strings.Cut(text, "@")
	seconds := 60
	if timed {
		n, err := strconv.Atoi(ahead)
		if err != nil || n < 0 || n > 65535 {
			a.bad(s, "", "%q: %q is not a number of seconds from 0 to 65535", s.value, ahead)
			return
		}
		seconds = max(n, 1)
	}
	signal, ok := signalName(name)
	if !ok {
		a.bad(s, "write one of USR1, USR2, TERM, INT, HUP, QUIT, ALRM, CONT and KILL", "%q: %q is not a signal that can stop a job", s.value, name)
		return
	}
	a.killed, a.killSignal, a.killSeconds = s, signal, jobspec.Seconds(seconds)
	a.warn(s, "%s is sent at the time limit and when the job must give way, and its processes have %v from then; Slurm sends it that long before the limit", signal, a.killSeconds)
}

// signalName reads USR1, SIGUSR1 or 10.
func signalName(text string) (string, bool) {
	byNumber := map[string]string{"1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "10": "USR1", "12": "USR2", "14": "ALRM", "15": "TERM", "18": "CONT", "28": "WINCH"}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if known, ok := byNumber[name]; ok {
		name = known
	}
	for _, known := range byNumber {
		if name == known {
			return "SIG" + name, true
		}
	}
	return "", false
}
