package rota

import (
	"github.com/rota-hpc/rota/controld/model"
)

// What tests of this package look at beside its exported names.
const Tiers = tiers

func HeadroomNow(x *headroom) *outlook                  { return &x.now }
func HeadroomSoon(x *headroom) *outlook                 { return &x.soon }
func OutlookOn(x *outlook) *[]uint64                    { return &x.on }
func OutlookWant(x *outlook) *int                       { return &x.want }
func PreemptorPlaces(x *preemptor) *map[model.JobID]int { return &x.places }

type Outlook = outlook
type Preemptor = preemptor
type RotaPolicy = rotaPolicy

var OutlookAll = (*outlook).all
var ElasticPhasesAllocation = (*elasticPhases).allocation
var ElasticPhasesDue = (*elasticPhases).due
var HeadroomCountAll = (*headroom).countAll
var NewElasticPhases = newElasticPhases
var NewHeadroom = newHeadroom
var NewPreemptor = newPreemptor
var NewRota = newRota
var OutlookTakes = (*outlook).takes
var PreemptorAffordable = (*preemptor).affordable
var PreemptorReluctanceFor = (*preemptor).reluctanceFor
var PreemptorAccounts = (*preemptor).accounts
