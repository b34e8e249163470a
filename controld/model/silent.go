package model

import (
	"fmt"
	"strings"
)

// SilentNotice is what the notice of a node says of a container (JOB.ATTEMPT.WORKER) whose shim does not answer.
// The text of why must not have "; ".
func SilentNotice(container, why string) string { return silentPrefix + container + ": " + why }

// SilentAdvice is behind the last of them.
const SilentAdvice = ": what runs there goes on (rota cancel ends it)"

const silentPrefix = "container "

// SilentShim returns why the shim of a worker does not answer, as the notice of its node says. It is false if
// that does not say so: it names a few containers alone.
func SilentShim(notice string, job JobID, attempt, worker int) (why string, silent bool) {
	prefix := SilentNotice(fmt.Sprintf("%d.%d.%d", job, attempt, worker), "")
	for part := range strings.SplitSeq(notice, "; ") {
		if why, is := strings.CutPrefix(part, prefix); is {
			return strings.TrimSuffix(why, SilentAdvice), true
		}
	}
	return "", false
}
