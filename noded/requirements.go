package noded

import (
	"context"
	"errors"
	"os"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/requirements"
)

// checkRequirements returns everything that this machine lacks to run containers, joined.
func checkRequirements(c Config) error {
	if os.Geteuid() != 0 {
		return errors.New("the node daemon must run as root to create containers: start it with sudo or as a " +
			"systemd service")
	}
	var errs []error
	for _, p := range c.SharedPaths {
		errs = append(errs, requirements.SharedPath(p))
	}
	errs = append(errs, requirements.Program("--shim", c.ShimPath), requirements.Program("--init", c.InitPath))
	if c.MPS {
		errs = append(errs, requirements.MPS())
	}
	err := checkDataDir(c.DataDir, c.Logger)
	if err == nil {
		err = checkWritable(c.DataDir)
	}
	errs = append(errs, err)
	return errors.Join(append(errs, requirements.Cgroups(c.CgroupRoot))...)
}

// findCriu returns the CRIU that saves containers here; its path is "" if none does. A node goes on without.
func findCriu(ctx context.Context, c Config) container.Criu {
	if !c.Criu {
		return container.Criu{}
	}
	path, version, err := requirements.FindCriu(ctx, c.CriuProgram)
	if err != nil {
		c.Logger.Warn("this node cannot save containers; jobs that ask for it run on other nodes", "error", err)
		return container.Criu{}
	}
	c.Logger.Info("containers are saved with CRIU", "program", path, "version", version)
	return container.Criu{Path: path, Version: version}
}
