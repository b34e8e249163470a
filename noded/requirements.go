package noded

import (
	"errors"
	"os"

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
