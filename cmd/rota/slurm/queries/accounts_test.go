package queries

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// accounts is a controller with the account nlp, in which the team bert is. Ann is in both, and bob has
// used nothing yet.
func accounts(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	half := api.Fairness{Weight: 2, Deserved: 500, Usage: 3600, Ratio: 1000}
	a.Give("GET /v1/shares", rotatest.List("ShareList", api.Share{Account: "bert", Parent: "nlp", Fairness: half,
		Users: []api.UserShare{{User: "ann", Fairness: api.Fairness{Weight: 1, Deserved: 250, Usage: 60, Ratio: 2000}}}},
		api.Share{Account: "nlp", Fairness: half, Users: []api.UserShare{{User: "ann", Fairness: half}}},
		api.Share{Account: "other", Fairness: api.Fairness{Weight: 1, Ratio: -1}}))
	a.Give("GET /v1/config", cluster.Config{ClusterName: "dgx", Accounts: map[string]cluster.Account{
		"bert": {Parent: "nlp", Members: []string{"bob", "%no-such-group"}},
		"nlp":  {Users: map[string]cluster.Terms{"cyd": {Weight: 3}}}}})
	a.Give("GET /v1/cluster", api.Cluster{Name: "dgx"})
	return a
}

// TestSacctmgr has the two lists that clients ask for, and what is refused.
func TestSacctmgr(t *testing.T) {
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: accounts(t).URL}
	wide := func(text string) string { return strings.Repeat(" ", 256-len(text)) + text + " \n" }
	for args, want := range map[string]string{
		"-n -s list user ann format=account%256":                                   wide("nlp") + wide("bert"),
		"-n -s list user eve format=account%256":                                   "",
		"-nP show users withassoc format=account,qos where user=bob cluster=dgx":   "bert|be,normal,te\n",
		"-nP show users withassoc format=account,qos where user=bob cluster=other": "",
		"-nP list user": "ann|nlp\ncyd|nlp\nbob|bert\n",
		"list user cyd": "      User   Def Acct \n---------- ---------- \n" +
			"       cyd        nlp \n",
		"-p list account": "Account|QOS|\nnlp|be,normal,te|\n" +
			"bert|be,normal,te|\nother|be,normal,te|\n",
		"-nP list associations account=nlp": "dgx|nlp||2|be,normal,te\ndgx|nlp|ann|2|be,normal,te\n" +
			"dgx|nlp|cyd|1|be,normal,te\n",
		"list clusters -nP":                          "dgx\n",
		"list clusters -nP format=clus":              "dgx\n",
		"list cluster other -n":                      "",
		"-n list user ann format=user%-6,account%2 ": "ann    n+ \n",
	} {
		if code, out, said := s.Call(append([]string{"sacctmgr"}, strings.Fields(args)...)...); code != 0 || out != want ||
			said != "" {
			t.Errorf("sacctmgr %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
	for args, want := range map[string]string{
		"":                        "only users, accounts, associations and clusters can be listed: rota share shows",
		"add user ann":            "only users, accounts, associations and clusters can be listed: rota share shows",
		"-i delete account nlp":   "unknown shorthand flag: 'i'",
		"list qos":                "qos cannot be listed, only users, accounts, associations and clusters: rota",
		"list user format=x":      "Invalid field requested: \"x\": there are Cluster, Account, ",
		"list user withcoord":     "withcoord is not supported, only withassoc: rota",
		"list user state=x":       "Unknown condition: state=x",
		"list user format=,":      "no field requested: \",\"",
		"list user format=user%x": "Invalid field width: \"user%x\"",
	} {
		if code, out, said := s.Call(append([]string{"sacctmgr"}, strings.Fields(args)...)...); code != 1 || out != "" ||
			!strings.HasPrefix(said, "sacctmgr: error: "+want) {
			t.Errorf("sacctmgr %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
}

// TestSshare has the list that clients ask for, and the whole one.
func TestSshare(t *testing.T) {
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: accounts(t).URL}
	wide := func(text string) string { return strings.Repeat(" ", 256-len(text)) + text + " \n" }
	const head = "Account                    User  RawShares  NormShares    RawUsage  EffectvUsage  FairShare \n" +
		"-------------------- ---------- ---------- ----------- ----------- ------------- ---------- \n"
	const nlp = "nlp                                      2    0.500000        3600      0.500000   0.500000 \n"
	const bert = " bert                                    2    0.500000        3600      0.500000   0.500000 \n"
	const other = "other                                    1    0.000000           0      0.000000   0.000000 \n"
	for args, want := range map[string]string{
		"-U --format Account%256 --noheader -u ann": wide("nlp") + wide(" bert"),
		"-U --format Account%256 --noheader":        "",
		"":                                          head + nlp + bert + other,
		"-u ann -A bert": head + bert +
			" bert                       ann          1    0.250000          60      0.500000   0.250000 \n",
		"-anP -o account,user":    "nlp|\nnlp|ann\nnlp|cyd\n bert|\n bert|ann\n bert|bob\nother|\n",
		"-M dgx -A other -nP":     "other||1|0.000000|0|0.000000|0.000000\n",
		"-nPu bob -o User -U -v ": "bob\n",
	} {
		if code, out, said := s.Call(append([]string{"sshare"}, strings.Fields(args)...)...); code != 0 || out != want ||
			said != "" {
			t.Errorf("sshare %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
	for args, want := range map[string]string{
		"-l": "unknown shorthand flag: 'l'", "-M other": "'other' can't be reached now",
		"x":          "Unrecognized option: x",
		"-o nothing": "Invalid field requested: \"nothing\"",
	} {
		if code, _, said := s.Call(append([]string{"sshare"}, strings.Fields(args)...)...); code != 1 ||
			!strings.HasPrefix(said, "sshare: error: "+want) {
			t.Errorf("sshare %s: %d\n%s\nwant\n%s", args, code, said, want)
		}
	}
}

// TestSprio: what starts first has the highest number.
func TestSprio(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/priorities", rotatest.List("PriorityList",
		api.Priority{Position: 1, ID: 7, Ref: "7", User: "ann", Account: "nlp", Class: "te", Priority: 50, Age: 61},
		api.Priority{Position: 2, ID: 8, Ref: "8_[1-3]", User: "bob", Account: "cv", Class: "be", Priority: 70, Age: 5},
		api.Priority{ID: 9, Ref: "9", User: "bob", Account: "cv", Class: "be"}))
	s := slurmtest.Shell{T: t, Tools: Commands, Addr: a.URL}
	const head = "          JOBID     USER    ACCOUNT      QOS   PRIORITY       SITE        AGE \n"
	const ann = "              7      ann        nlp       te          3         50         61 \n"
	const bob = "        8_[1-3]      bob         cv       be          2         70          5 \n"
	const held = "              9      bob         cv       be          0          0          0 \n"
	for args, want := range map[string]string{"": head + ann + bob + held, "-h -u ann": ann, "-h -j 8,9": bob + held,
		"-h -j 8_[1-3]": bob, "-h -u bob -j 7": ""} {
		if code, out, said := s.Call(append([]string{"sprio"}, strings.Fields(args)...)...); code != 0 || out != want ||
			said != "" {
			t.Errorf("sprio %s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
	for _, args := range []string{"sprio -w", "sprio x"} {
		if code, out, said := s.Call(strings.Fields(args)...); code != 1 || out != "" ||
			!strings.Contains(said, ": error: ") {
			t.Errorf("%s: %d %q %q", args, code, out, said)
		}
	}
}
