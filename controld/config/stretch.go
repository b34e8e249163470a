package config

import "github.com/rota-hpc/rota/controld/model/cluster"

// resting are the parameters of policies that give elastic jobs more workers.
var resting = []parameter{
	{"grow_after", "duration", "how long capacity must be free before an elastic job grows into it (default: the job's " +
		"own value)", lasting(1, growAfter), span(growAfter)},
	{"cooldown", "duration", "how long an elastic job keeps its size unless others need its capacity (default: the " +
		"job's own value)", lasting(1, cooldown), span(cooldown)},
}

// rigid says whether policy rota gives elastic jobs more than their least workers.
var rigid = parameter{"elastic", "bool", "whether elastic jobs may get more than their minimum of workers (default: " +
	"true)",
	elastic, elasticText}

// gain is when policy elastic takes workers back.
var gain = parameter{"gain", "int", "least speed-up, in thousandths, for which a job keeps additional workers",
	between(1, 1000, leastGain),
	func(p *cluster.Policy) string { return orWord(p.GrowGainPM, "") }}

func growAfter(p *cluster.Policy) *int64 { return &p.GrowAfterMS }
func cooldown(p *cluster.Policy) *int64  { return &p.CooldownMS }
func leastGain(p *cluster.Policy) *int64 { return &p.GrowGainPM }

func elastic(p *cluster.Policy, text string) error {
	on, err := truth(text)
	p.Rigid = !on
	return err
}

func elasticText(p *cluster.Policy) string {
	if p.Rigid {
		return "false"
	}
	return ""
}
