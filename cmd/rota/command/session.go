package command

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Session is the environment of a command that talks to the controllers, with its connection.
type Session struct {
	*Env
	*api.Client
	AsJSON bool // whether -o asks for JSON; false for commands with more formats
}

// Dial returns a session with the cluster of --addr, or of the default address.
func (env *Env) Dial(c *cli.Context) (*Session, error) {
	return env.DialAt(c.String("addr"), c.String("token"))
}

// DialAt returns a session with the cluster at an address, "" for the default one, that shows an API
// token, "" for the default one.
func (env *Env) DialAt(addr, token string) (*Session, error) {
	opts, err := env.clientOptions(token)
	if err != nil {
		return nil, err
	}
	client, err := api.DialWith(cmp.Or(addr, api.DefaultAddr(env.Getenv)), opts)
	if err != nil {
		return nil, exit.Usagef("%v", err).WithHint("set the address of the controllers by --addr or ROTA_ADDR")
	}
	return &Session{Env: env, Client: client}, nil
}

// InCluster returns the name of the cluster, and an error unless a list of clusters has it. The list is
// that of a command of Slurm: names with commas, or all.
func (s *Session) InCluster(ctx context.Context, list string) (string, error) {
	c, _, err := s.Cluster(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range SplitList(list) {
		if name == c.Name || name == "all" {
			return c.Name, nil
		}
	}
	return "", exit.Usagef("'%s' can't be reached now, or it is an invalid entry for --cluster", list).
		WithHint("this cluster is " + c.Name + ": others are reached by --addr or ROTA_ADDR")
}

// clientOptions returns how to connect: with the API token that is given, or that of ROTA_TOKEN.
func (env *Env) clientOptions(token string) (api.Options, error) {
	opts := env.ClientOptions
	if env.OwnJob() != "" && opts.Unreachable == 0 {
		opts.Unreachable = inJobPatience
	}
	opts.Warn = func(text string) { env.Notef("warning: %s", show.Clean(text)) }
	opts.RunAs = func(user string) {
		if env.RunAs != nil {
			env.RunAs(user)
		}
	}
	text := cmp.Or(token, env.Getenv("ROTA_TOKEN"))
	if text == "" {
		return opts, nil
	}
	t, err := api.ParseBearerToken(text)
	if err != nil {
		return opts, exit.Usagef("%v", err).WithHint("the token comes from --token or ROTA_TOKEN")
	}
	return opts.WithToken(t), nil
}

// inJobPatience is how long a command in a job waits for its node's daemon, which starts again when it
// is updated. A job that cannot ask to be requeued would lose its place.
const inJobPatience = 30 * time.Second

// OwnJob returns the job in which this process runs, "" if in none.
func (env *Env) OwnJob() string {
	id := env.Getenv("ROTA_JOB_ID")
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 1 {
		return ""
	}
	return id
}

// Connect is [Env.Dial] for a command that prints text or JSON.
func (env *Env) Connect(c *cli.Context) (*Session, error) {
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return nil, err
	}
	s, err := env.Dial(c)
	if err == nil {
		s.AsJSON = asJSON
	}
	return s, err
}

// ConnectForJobs is [Env.Connect] for a command whose arguments are jobs, at least one.
func (env *Env) ConnectForJobs(c *cli.Context) (s *Session, refs []string, err error) {
	if refs, err = jobArguments(c); err != nil {
		return nil, nil, err
	}
	s, err = env.Connect(c)
	return s, refs, err
}

// ConnectForJob is [Env.Connect] for a command whose argument is one job.
func (env *Env) ConnectForJob(c *cli.Context) (s *Session, ref string, err error) {
	if ref, err = jobArgument(c); err != nil {
		return nil, "", err
	}
	s, err = env.Connect(c)
	return s, ref, err
}

// JobID returns the id of a job that is named as 123, 123_4 or 123.train. It may ask the
// controllers.
func (s *Session) JobID(ctx context.Context, ref string) (model.JobID, error) {
	if n, err := strconv.ParseInt(ref, 10, 64); err == nil && n > 0 {
		return model.JobID(n), nil
	}
	job, _, err := s.JobBy(ctx, ref, api.Read{})
	if err != nil {
		return 0, err
	}
	return job.ID, nil
}
