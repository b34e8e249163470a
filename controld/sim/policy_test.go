package sim

import (
	"reflect"
	"strings"
	"testing"
)

func TestPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"nobody":                         `no such policy; the policies are rota, fairshare`,
		"":                               `no such policy`,
		"easy:x=1":                       `unknown parameter of the policy; there are oversubscribe`,
		"rota:depth=1":                   `there are reserve_after (how long`,
		"rota:max_bypass":                `is not KEY=VALUE`,
		"rota:max_bypass=-1":             `is not a whole number`,
		"rota:max_bypass=1,max_bypass=2": `is given twice`,
		"las:min_run=soon":               `policy las: min_run`,
		"rota:min_turn=0s":               `"0s" is zero`, // zero would mean the default
		"rota:min_runtime=0m":            `"0m" is zero`,
		"rota:grow_after=0s":             `"0s" is zero`,
		"rota:cooldown=0s":               `"0s" is zero`,
		"standard:reserve_hold=0s":       `"0s" is zero`, // zero would be over at once
		"rota:p=0":                       `"0" is neither a whole number from 1`,
		"lrtp:p=-1":                      `"-1" is neither a whole number from 1`,
		"fifo:seed=3":                    `seed needs fit=random`,
		"backfill:seed=3,fit=best":       `seed needs fit=random`,
		"fifo:seed=0,fit=random":         `"0" is not a whole number from 1`, // zero would mean the seed of the run
		"rand:seed=-1":                   `"-1" is not a whole number from 1`,
	} {
		if _, err := ParsePolicy(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if p, err := ParsePolicy("rota:min_turn=never"); err != nil {
		t.Error(err)
	} else if cfg, err := p.config(nil); err != nil || cfg.Policy.MinTurnMS >= 0 {
		t.Errorf("a turn that is never over lasts %d ms, %v", cfg.Policy.MinTurnMS, err)
	}
	if _, err := ParsePolicy("fifo:seed=3,fit=random"); err != nil {
		t.Error(err)
	}
	p, err := ParsePolicy("rota:reserve_hold=30m,max_bypass=8")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := p.config(nil)
	if err != nil || cfg.Policy.MaxBypass != 8 || cfg.Policy.ReserveHoldMS != 30*minute || cfg.Policy.Name != "rota" {
		t.Errorf("got %+v, %v", cfg.Policy, err)
	}
	if got := p.String(); got != "rota:max_bypass=8,reserve_hold=30m" {
		t.Errorf("written as %s", got)
	}
	again, err := ParsePolicy(p.String())
	if err != nil || !reflect.DeepEqual(again.Params, p.Params) {
		t.Errorf("%v, %v", again, err)
	}
}
