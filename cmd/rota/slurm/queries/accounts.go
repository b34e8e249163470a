package queries

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// association is an account, or one user of an account.
type association struct {
	cluster, account, user string
	depth                  int // depth of the account in the tree, from 0
	api.Fairness
	limit *cluster.Limit // nil: none
}

// sharesHint names the command that shows more about accounts, and how to change them.
const sharesHint = "rota share shows the usage and quotas of accounts and users, and rota config their configuration"

// services lists the classes of service, which Slurm calls qos.
var services = strings.Join([]string{string(jobspec.BE), "normal", string(jobspec.TE)}, ",")

// sacctmgr lists users and accounts; it cannot change them.
func sacctmgr(ctx context.Context, t *tool.Tool, args []string) error {
	s := fields.Sheet[association]{}
	var format string
	f := t.Flags()
	sheetFlags(f, &s, &format)
	f.Lookup("format").Hidden = true
	f.BoolP("associations", "s", false, "")
	f.BoolP("readonly", "r", false, "") // it never changes anything
	f.BoolP("quiet", "Q", false, "")    // it prints no further messages
	words, err := t.Parse(f, args)
	switch {
	case err != nil:
		return err
	case len(words) < 2 || !slices.Contains([]string{"list", "show"}, strings.ToLower(words[0])):
		return errors.New("only users, accounts, associations and clusters can be listed: " + sharesHint)
	}
	q, err := readAccountQuery(words[1], words[2:])
	if err != nil {
		return err
	}
	columns := []fields.Field[association]{
		fields.Titled("Cluster", 10, func(a association) string { return a.cluster }),
		fields.Titled("Account", 10, func(a association) string { return a.account }),
		fields.Titled("User", 10, func(a association) string { return a.user }),
		fields.Titled("Share", 9, func(a association) string { return strconv.FormatInt(a.Weight, 10) }),
		fields.Titled("QOS", 20, func(association) string { return services }),
		fields.Titled("GrpJobs", 8, ofAccount(func(l *cluster.Limit) *int64 { return l.Running })),
		fields.Titled("GrpSubmit", 9, ofAccount(func(l *cluster.Limit) *int64 { return l.Submitted })),
		fields.Titled("GrpTRES", 13, func(a association) string { return a.trackable() }),
		fields.Titled("GrpTRESRunMin", 13, func(a association) string { return a.runMinutes() }),
		fields.Titled("MaxJobs", 8, ofUser(func(l *cluster.Limit) *int64 { return l.Running })),
		fields.Titled("MaxSubmit", 9, ofUser(func(l *cluster.Limit) *int64 { return l.Submitted })),
		fields.Titled("MaxWall", 11, func(a association) string { return a.wall() }),
		fields.Titled("Def Acct", 10, func(a association) string { return a.account }),
		fields.Titled("DefaultAccount", 10, func(a association) string { return a.account }),
	}
	if q.format = cmp.Or(q.format, format); q.format == "" {
		q.format = q.usual
	}
	if err := s.Choose(columns, q.format); err != nil {
		return err
	}
	session, err := t.Connect()
	if err != nil {
		return err
	}
	all, err := associations(ctx, session)
	if err != nil {
		return tool.AsSlurm(err)
	}
	return s.Print(t.Stdout, slices.Values(q.rows(all, f.Changed("associations"))))
}

// accountQuery is the parsed "list" command of sacctmgr.
type accountQuery struct {
	entity, format, usual     string
	users, accounts, clusters []string
	whole                     bool // one row for each association (withassoc)
}

// readAccountQuery parses the words after "list": the entity, names, and conditions.
func readAccountQuery(entity string, words []string) (*accountQuery, error) {
	q := &accountQuery{entity: strings.TrimSuffix(strings.ToLower(entity), "s")}
	var names *[]string
	switch q.entity {
	case "user":
		q.usual, names = "User,DefAcct", &q.users
	case "account":
		q.usual, names = "Account,QOS", &q.accounts
	case "assoc", "association":
		q.entity, q.usual = "association", "Cluster,Account,User,Share,QOS"
	case "cluster":
		q.usual, names = "Cluster", &q.clusters
	default:
		return nil, fmt.Errorf("%s cannot be listed, only users, accounts, associations and clusters: %s", entity,
			sharesHint)
	}
	for _, word := range words {
		key, value, is := strings.Cut(word, "=")
		switch k := strings.TrimSuffix(strings.ToLower(key), "s"); {
		case !is && (k == "where" || k == "withas" || k == "withassoc"):
			q.whole = q.whole || k != "where"
		case !is && strings.HasPrefix(k, "with"):
			return nil, fmt.Errorf("%s is not supported, only withassoc: %s", word, sharesHint)
		case !is && names != nil:
			*names = append(*names, command.SplitList(word)...)
		case k == "format":
			q.format = value
		case k == "user" || k == "name" && q.entity == "user":
			q.users = append(q.users, command.SplitList(value)...)
		case k == "account" || k == "name" && q.entity == "account":
			q.accounts = append(q.accounts, command.SplitList(value)...)
		case k == "cluster" || k == "name" && q.entity == "cluster":
			q.clusters = append(q.clusters, command.SplitList(value)...)
		default:
			return nil, fmt.Errorf("Unknown condition: %s: user, account, cluster and format are supported", word)
		}
	}
	return q, nil
}

// rows returns the requested associations: all of them, or one for each user, account or cluster.
func (q *accountQuery) rows(all []association, whole bool) []association {
	var rows []association
	seen := map[string]bool{}
	for _, a := range all {
		key := map[string]string{"user": a.user, "account": a.account, "cluster": a.cluster}[q.entity]
		switch {
		case len(q.users) > 0 && !slices.Contains(q.users, a.user),
			len(q.accounts) > 0 && !slices.Contains(q.accounts, a.account),
			len(q.clusters) > 0 && !slices.Contains(q.clusters, a.cluster) && !slices.Contains(q.clusters, "all"),
			q.entity == "user" && a.user == "":
		case q.entity != "association" && !whole && !q.whole && seen[key]:
		default:
			seen[key] = true
			rows = append(rows, a)
		}
	}
	return rows
}

// associations returns the tree of accounts; the users of each account follow it. These are the
// users that its configuration names, and those that hold or have used resources. The caller is
// included if it belongs to a group of the account.
func associations(ctx context.Context, s *command.Session) ([]association, error) {
	shares, _, err := s.Shares(ctx, api.Read{})
	if err != nil {
		return nil, err
	}
	cfg, _, err := s.Config(ctx, api.Read{})
	if err != nil {
		return nil, err
	}
	me := ownName()
	var all []association
	var add func(parent string, depth int)
	add = func(parent string, depth int) {
		for i := range shares.Items {
			share := &shares.Items[i]
			if share.Parent != parent || depth > cluster.MaxAccounts {
				continue
			}
			all = append(all, association{cluster: cfg.ClusterName, account: share.Account, depth: depth,
				Fairness: share.Fairness, limit: cfg.Accounts[share.Account].Limit})
			known := map[string]api.Fairness{}
			for _, name := range namedUsers(cfg.Accounts[share.Account], me) {
				known[name] = api.Fairness{Weight: 1}
			}
			for _, u := range share.Users {
				known[u.User] = u.Fairness
			}
			for _, name := range slices.Sorted(maps.Keys(known)) {
				all = append(all, association{cfg.ClusterName, share.Account, name, depth, known[name],
					cfg.LimitOf(share.Account, name)})
			}
			add(share.Account, depth+1)
		}
	}
	add("", 0)
	return all, nil
}

// namedUsers returns the users in an account's configuration, plus the caller if it belongs to a
// configured group.
func namedUsers(a cluster.Account, me string) []string {
	names := slices.Sorted(maps.Keys(a.Users))
	names = slices.DeleteFunc(names, func(name string) bool { return name == cluster.EachUser })
	for _, member := range a.Members {
		group, is := strings.CutPrefix(member, "%")
		switch {
		case !is:
			names = append(names, member)
		case inGroup(group):
			names = append(names, me)
		}
	}
	return names
}

// inGroup reports whether the caller belongs to a Unix group.
func inGroup(name string) bool {
	g, err := directory.Machine.GroupByName(name)
	if err != nil {
		return false
	}
	ids, err := os.Getgroups()
	return err == nil && slices.Contains(append(ids, os.Getgid()), int(g.GID))
}

// ownName returns the caller's user name, or its number if it has none.
func ownName() string {
	uid := os.Getuid()
	if u, err := directory.Machine.UserByID(uint32(uid)); err == nil {
		return u.Name
	}
	return strconv.Itoa(uid)
}

// sshare lists the shares and the usage of accounts and users.
func sshare(ctx context.Context, t *tool.Tool, args []string) error {
	columns := []fields.Field[association]{
		fields.Titled("Cluster", 10, func(a association) string { return a.cluster }),
		fields.Titled("Account", -20, func(a association) string { return strings.Repeat(" ", a.depth) + a.account }),
		fields.Titled("User", 10, func(a association) string { return a.user }),
		fields.Titled("RawShares", 10, func(a association) string { return strconv.FormatInt(a.Weight, 10) }),
		fields.Titled("NormShares", 11, func(a association) string { return fmt.Sprintf("%.6f", float64(a.Deserved)/1000) }),
		fields.Titled("RawUsage", 11, func(a association) string { return strconv.FormatInt(a.Usage, 10) }),
		fields.Titled("EffectvUsage", 13, func(a association) string { return fmt.Sprintf("%.6f", usedPart(a)) }),
		fields.Titled("FairShare", 10, func(a association) string {
			if a.Ratio < 0 {
				return "0.000000"
			}
			return fmt.Sprintf("%.6f", math.Pow(2, -float64(a.Ratio)/1000)) // Slurm without its tree
		}),
	}
	var s fields.Sheet[association]
	var format, accounts, users, clusters string
	f := t.Flags()
	sheetFlags(f, &s, &format)
	f.StringVarP(&accounts, "accounts", "A", "", "")
	f.StringVarP(&users, "users", "u", "", "")
	f.StringVarP(&clusters, "clusters", "M", "", "")
	everyone := f.BoolP("all", "a", false, "")
	only := f.BoolP("Users", "U", false, "")
	f.CountP("verbose", "v", "") // it prints no further messages
	if err := t.ParseOptions(f, args); err != nil {
		return err
	}
	// Choose the columns before the request, so that a mistake in the format costs nothing.
	format = cmp.Or(format, "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare")
	if err := s.Choose(columns, format); err != nil {
		return err
	}
	session, _, err := t.ConnectFor(ctx, clusters)
	if err != nil {
		return tool.AsSlurm(err)
	}
	all, err := associations(ctx, session)
	if err != nil {
		return tool.AsSlurm(err)
	}
	// Filter by accounts and users. Without -u and -a only the caller's own users are shown, as in Slurm.
	wanted := command.SplitList(users)
	if len(wanted) == 0 {
		wanted = []string{ownName()}
	}
	named := command.SplitList(accounts)
	var rows []association
	for _, a := range all {
		switch {
		case len(named) > 0 && !slices.Contains(named, a.account):
		case a.user == "" && *only, a.user != "" && !*everyone && !slices.Contains(wanted, a.user):
		default:
			rows = append(rows, a)
		}
	}
	return s.Print(t.Stdout, slices.Values(rows))
}

// usedPart returns the fraction of the cluster that an account or user has held while it had jobs.
func usedPart(a association) float64 {
	return float64(max(a.Ratio, 0)) / 1000 * float64(a.Deserved) / 1000
}

// sprio lists pending jobs with their place in the queue.
func sprio(ctx context.Context, t *tool.Tool, args []string) error {
	type row struct {
		*api.Priority
		places int // number of places
	}
	columns := []fields.Field[row]{
		fields.Titled("JOBID", 15, func(r row) string { return r.Ref }),
		fields.Titled("USER", 8, func(r row) string { return r.User }),
		fields.Titled("ACCOUNT", 10, func(r row) string { return r.Account }),
		fields.Titled("QOS", 8, func(r row) string { return string(r.Class) }),
		fields.Titled("PRIORITY", 10, func(r row) string {
			if r.Position == 0 {
				return "0"
			}
			return strconv.Itoa(r.places - r.Position + 1)
		}),
		fields.Titled("SITE", 10, func(r row) string { return strconv.Itoa(r.Priority.Priority) }),
		fields.Titled("AGE", 10, func(r row) string { return strconv.FormatInt(r.Age, 10) }),
	}
	var s fields.Sheet[row]
	f := t.Flags()
	f.BoolVarP(&s.NoHeader, "noheader", "h", false, "")
	jobs := f.StringP("jobs", "j", "", "")
	users := f.StringP("user", "u", "", "")
	f.CountP("verbose", "v", "") // it prints no further messages
	if err := t.ParseOptions(f, args); err != nil {
		return fmt.Errorf("%w (rota prio shows the order of jobs in detail)", err)
	}
	session, err := t.Connect()
	if err != nil {
		return err
	}
	list, _, err := session.Priorities(ctx)
	if err != nil {
		return tool.AsSlurm(err)
	}
	if err := s.Choose(columns, strings.Join(fields.Titles(columns), ",")); err != nil {
		return err
	}
	// Filter by jobs and users. An array's job id selects all of its tasks.
	refs, names := command.SplitOutsideBrackets(*jobs), command.SplitList(*users)
	var rows []row
	for i := range list.Items {
		p := &list.Items[i]
		base, _, _ := strings.Cut(p.Ref, "_")
		listed := *jobs == "" || slices.Contains(refs, p.Ref) || slices.Contains(refs, base) ||
			slices.Contains(refs, show.ID(p.ID))
		if listed && (len(names) == 0 || slices.Contains(names, p.User)) {
			rows = append(rows, row{p, len(list.Items)})
		}
	}
	// Print lines instead of a sheet, because sprio has no dashes below the titles.
	out := bufio.NewWriter(t.Stdout)
	l := fields.Lines[row]{Columns: s.Columns, Out: out}
	if !s.NoHeader {
		l.Header()
	}
	for _, r := range rows {
		l.Row(r)
	}
	return out.Flush()
}
