package schedtest

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// StepShared does something at random where jobs share GPUs.
func (c *Contest) StepShared() {
	if c.Random.IntN(3) > 0 {
		c.Step()
		return
	}
	for range 1 + c.Random.IntN(4) {
		c.jobs++
		gang := ""
		if c.Random.IntN(6) == 0 {
			gang = fmt.Sprintf(" gang=%dx1 per-node=%d", 2+c.Random.IntN(2), 1+c.Random.IntN(3))
		}
		options := fmt.Sprintf("class=%s cores=1 memory=1 grace=%ds account=a%d%s%s",
			[...]string{"te", "be", "be", "be"}[c.Random.IntN(4)],
			1+c.Random.IntN(600), c.Random.IntN(2), [...]string{"", " save=yes"}[c.Random.IntN(2)], gang)
		c.MustShare(fmt.Sprintf("j%d", c.jobs), 1+c.Random.IntN(999), options)
	}
}

// MustShare submits a job of whose GPU it gets a part, whatever else is said of it.
func (c *Contest) MustShare(name string, share int, options string) {
	_, rest := Split(append([]string{name}, strings.Fields(options)...))
	spec, err := c.MakeJob(name, rest)
	if err == nil {
		r := &spec.Groups[0].Tasks[0].Resources
		r.GPUs, r.GPU = 1, &jobspec.GPU{Share: share}
		err = c.add(name, spec)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
}
