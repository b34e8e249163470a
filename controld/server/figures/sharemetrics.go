package figures

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
)

// maxShareLabels bounds the accounts that have figures of their own; the others are added up.
const maxShareLabels = 100

// otherAccounts is the label of the accounts that are added up: no account can have the name.
const otherAccounts = "(others)"

var descShare = prometheus.NewDesc("rota_account_share", "Parts of the cluster: what an account holds, its quota, "+
	"and its fair share now. If there are many accounts, the smallest are added up.",
	[]string{"account", "part"}, nil)

// shareFigures computes the shares of accounts for the metrics, and then takes ten times as long
// until it does so again.
type shareFigures struct {
	mu   sync.Mutex
	next time.Time
	last []fairshare.Share
}

// of returns the shares of accounts at the top of the tree and below, users left out.
func (s *shareFigures) of(v *state.View, now model.Instant) []fairshare.Share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if begin := time.Now(); begin.After(s.next) {
		s.last = slices.DeleteFunc(sched.Shares(v, now, v.Config().Policy),
			func(s fairshare.Share) bool { return s.User != "" })
		s.last = bounded(s.last, maxShareLabels)
		end := time.Now()
		s.next = end.Add(10 * end.Sub(begin))
	}
	return s.last
}

// bounded leaves the accounts that hold or deserve most, in order of name, and adds up the others.
// Accounts within others are not added up: what they have is in their parents' figures.
func bounded(list []fairshare.Share, most int) []fairshare.Share {
	if len(list) > most {
		slices.SortFunc(list, func(a, b fairshare.Share) int {
			return cmp.Or(cmp.Compare(max(b.Alloc, b.Deserved), max(a.Alloc, a.Deserved)), cmp.Compare(a.Account, b.Account))
		})
		others := fairshare.Share{Account: otherAccounts}
		for _, s := range list[most-1:] {
			if s.Parent == "" {
				others.Alloc += s.Alloc
				others.Deserved += s.Deserved
				others.Fair += s.Fair
			}
		}
		list = append(list[:most-1:most-1], others)
	}
	slices.SortFunc(list, func(a, b fairshare.Share) int { return cmp.Compare(a.Account, b.Account) })
	return list
}

// collect sends the figures.
func (s *shareFigures) collect(ch chan<- prometheus.Metric, v *state.View, now model.Instant) {
	for _, a := range s.of(v, now) {
		for _, f := range []struct {
			part        string
			thousandths int64
		}{{"held", a.Alloc}, {"deserved", a.Deserved}, {"fair", a.Fair}} {
			ch <- prometheus.MustNewConstMetric(descShare, prometheus.GaugeValue, float64(f.thousandths)/1000, a.Account, f.part)
		}
	}
}
