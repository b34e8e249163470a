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
	OrderWorth = &Tunable{"order_worth", "times the waiting job's need", 3,
		"a job is preempted in service order only if it would run for so much longer",
		func(p *Policy) *int64 { return &p.OrderWorth }}
	CostWorth = &Tunable{"cost_worth", "times the loss", 4,
		"a job is preempted for another job of its class only if its remaining time is so many times the loss: grace, " +
			"restart and unsaved work", func(p *Policy) *int64 { return &p.CostWorth }}
	ShortService = &Tunable{"short_service", "minutes of one GPU", 240,
		"shorter jobs are ordered only by age and fit", func(p *Policy) *int64 { return &p.ShortMinutes }}
	Comeback = &Tunable{"comeback", "thousandths of the cluster", 100,
		"a long job that was preempted starts again only if so much stays free, while new jobs arrive",
		func(p *Policy) *int64 { return &p.ComebackPM }}
	MigrationWorth = &Tunable{"migration_worth", "times the loss", 20,
		"a job moves to make room for a wider job only if the one has run, and the other waited, for so many times the loss",
		func(p *Policy) *int64 { return &p.MigrationWorth }}
	TEWorth = &Tunable{"te_worth", "best-effort jobs", 20,
		"so many best-effort jobs may wait to spare one trial-and-error job the same wait; off: no headroom",
		func(p *Policy) *int64 { return &p.TEWorth }}
	HeadroomPatience = &Tunable{"headroom_patience", "times reserve_after", 6,
		"a job that has waited for longer may use half of the headroom", func(p *Policy) *int64 { return &p.HeadroomTimes }}
	LossWeight = &Tunable{"loss_weight", "thousandths of the greatest size", 1000,
		"added to the cost of a preemption for each doubling of the lost GPU hours",
		func(p *Policy) *int64 { return &p.LossWeight }}
	ResizeWorth = &Tunable{"resize_worth", "times the loss", 10,
		"a running elastic job gets more workers only if they save so many times the loss",
		func(p *Policy) *int64 { return &p.ResizeWorth }}
)

// Tunables lists the tunables of policy rota.
func Tunables() []*Tunable {
	return []*Tunable{OrderWorth, CostWorth, ShortService, Comeback, MigrationWorth, TEWorth, HeadroomPatience,
		LossWeight, ResizeWorth}
}
