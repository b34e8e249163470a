package cluster

// Tuning is the numbers of policy rota that a policy block can set besides those that other
// policies have too. A field that is 0 has its default. A negative one switches the rule off.
type Tuning struct {
	OrderWorth     int64 `json:"order_worth,omitempty"`
	CostWorth      int64 `json:"cost_worth,omitempty"`
	ShortMinutes   int64 `json:"short_service,omitempty"`
	ComebackPM     int64 `json:"comeback,omitempty"`
	MigrationWorth int64 `json:"migration_worth,omitempty"`
	TEWorth        int64 `json:"te_worth,omitempty"`
	HeadroomTimes  int64 `json:"headroom_patience,omitempty"`
	LossWeight     int64 `json:"loss_weight,omitempty"`
	ResizeWorth    int64 `json:"resize_worth,omitempty"`
}

// Tunable is a number of policy rota, as its users see it.
type Tunable struct {
	Name    string // of the attribute of the policy block, and of the key of rota sim --policy
	Unit    string
	Default int64
	Does    string
	in      func(*Policy) *int64
}

// MostTunable is the most that a tunable can be set to.
const MostTunable = 1_000_000

// Field returns where a policy has the number as it was set.
func (t *Tunable) Field(p *Policy) *int64 { return t.in(p) }

// Of returns the number that holds under a policy.
func (t *Tunable) Of(p *Policy) int64 {
	switch v := *t.in(p); {
	case v == 0:
		return t.Default
	case v < 0:
		return 0
	default:
		return v
	}
}

// The tunables of policy rota. docs/policy.md has the worth of each, measured by switching it off.
var (
	OrderWorth = &Tunable{"order_worth", "times what the job that waits needs", 3,
		"a job leaves for one that comes first in order only if it goes on for so much longer",
		func(p *Policy) *int64 { return &p.OrderWorth }}
	CostWorth = &Tunable{"cost_worth", "times what is lost", 4,
		"a job leaves for another of its class only if it goes on for so much longer than its grace, restart and unsaved " +
			"work take", func(p *Policy) *int64 { return &p.CostWorth }}
	ShortService = &Tunable{"short_service", "minutes of one GPU", 240,
		"jobs that need less go by age and fit alone", func(p *Policy) *int64 { return &p.ShortMinutes }}
	Comeback = &Tunable{"comeback", "thousandths of the cluster", 100,
		"a long job that was preempted leaves so much free when it starts again, while new jobs come",
		func(p *Policy) *int64 { return &p.ComebackPM }}
	MigrationWorth = &Tunable{"migration_worth", "times what is lost", 20,
		"a job moves for a wider one only if both have run or waited for so much longer",
		func(p *Policy) *int64 { return &p.MigrationWorth }}
	TEWorth = &Tunable{"te_worth", "best-effort jobs", 20,
		"so many may have to wait to spare one trial-and-error job the same; off: no headroom",
		func(p *Policy) *int64 { return &p.TEWorth }}
	HeadroomPatience = &Tunable{"headroom_patience", "times reserve_after", 6,
		"a job that has waited for longer may use half of the headroom", func(p *Policy) *int64 { return &p.HeadroomTimes }}
	LossWeight = &Tunable{"loss_weight", "thousandths of the greatest size", 1000,
		"what each doubling of lost GPU hours adds to the cost of a preemption",
		func(p *Policy) *int64 { return &p.LossWeight }}
	ResizeWorth = &Tunable{"resize_worth", "times what is lost", 10,
		"a running elastic job gets more workers only if that saves it so much",
		func(p *Policy) *int64 { return &p.ResizeWorth }}
)

// Tunables lists the tunables of policy rota.
func Tunables() []*Tunable {
	return []*Tunable{OrderWorth, CostWorth, ShortService, Comeback, MigrationWorth, TEWorth, HeadroomPatience,
		LossWeight, ResizeWorth}
}
