package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// lostNodes returns the nodes of a job's attempt that are down while workers may still run there.
func (r *Reasons) lostNodes(j *model.Job) []*model.Node {
	a := j.Live()
	if a == nil {
		return nil
	}
	var lost []*model.Node
	for i := range a.Workers {
		n, _ := r.before.View.Node(a.Workers[i].Node)
		if n != nil && n.State == model.NodeDown && !a.Workers[i].State.Final() && !slices.Contains(lost, n) {
			lost = append(lost, n)
		}
	}
	return lost
}

// lostNode explains the wait of a job with a node that is down, and when it starts elsewhere.
func (r *Reasons) lostNode(j *model.Job) (model.Reason, bool) {
	lost := r.lostNodes(j)
	if len(lost) == 0 {
		return model.Reason{}, false
	}
	why := model.Reason{Code: model.ReasonNodeLost, Node: nodeNames(lost)}
	if j.Live().Waits {
		why.Text = "it keeps running there, and starts elsewhere only once the node returns or is confirmed dead " +
			`(on_node_lost = "wait")`
		return why, true
	}
	held := slices.DeleteFunc(slices.Clone(lost), func(n *model.Node) bool {
		return r.before.Now < r.before.View.LostAt(n) || !r.before.View.HeldByWitnesses(n)
	})
	if len(held) == len(lost) {
		why.Text = "its lease is over, but it may still run there, because witnesses may have told the node that the " +
			"controllers are down. It starts elsewhere once the leader has been in touch with a majority of the witnesses for " +
			"longer than a lease (rota cluster shows them)"
		return why, true
	}
	why.Until = r.before.View.LostAt(lost[0])
	for _, n := range lost[1:] {
		why.Until = min(why.Until, r.before.View.LostAt(n))
	}
	left := jobspec.Seconds(max(0, why.Until-r.before.Now) / 1000)
	why.Text = fmt.Sprintf("its containers may run until their lease ends; unless the node returns, it starts elsewhere "+
		"in %v", left)
	return why, true
}

// lostNodeAdvice says how a job gets away from nodes that are down.
func lostNodeAdvice(why model.Reason) string {
	return fmt.Sprintf("if %s is off for good, an operator can confirm that, and the job starts elsewhere at once: rota "+
		"node confirm-dead %s", why.Node, strings.ReplaceAll(why.Node, ", ", " "))
}

func nodeNames(nodes []*model.Node) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
}
