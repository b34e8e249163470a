package fairshare

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// What tests of this package look at beside its exported names.
func AccountsFirst(x *Accounts) *queue.Firsts[*drf.Node]          { return &x.first }
func AccountsHeads(x *Accounts) **leafQueue                       { return &x.heads }
func AccountsLeaves(x *Accounts) *map[model.Association]*drf.Node { return &x.leaves }
func AccountsOpen(x *Accounts) **leafQueue                        { return &x.open }
func AccountsSeen(x *Accounts) *queue.Frontier                    { return &x.seen }
func LeafQueueAt(x *leafQueue) *map[*drf.Node]*turn               { return &x.at }
func LeafQueueF(x *leafQueue) **Accounts                          { return &x.f }
func TurnLine(x *turn) *queue.Contenders                          { return &x.line }

type LeafQueue = leafQueue

var AccountsBegan = (*Accounts).began
var AccountsCandidates = (*Accounts).candidates
var AccountsCounts = (*Accounts).counts
var AccountsEmptied = (*Accounts).emptied
var AccountsFirstsStarved = (*Accounts).firstsStarved
var AccountsGlance = (*Accounts).frontScan
var AccountsGone = (*Accounts).gone
var AccountsLine = (*Accounts).line
var AccountsPlace = (*Accounts).place
var AccountsPromise = (*Accounts).promise
var AccountsReclaimFor = (*Accounts).reclaimFor
var AccountsRenounce = (*Accounts).renounce
var AccountsStarved = (*Accounts).starved
var LeafQueueBest = (*leafQueue).best
var LeafQueuePop = (*leafQueue).pop
