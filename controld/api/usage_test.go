package api

import "testing"

// TestUsageAsSlurmHasIt shows usage in the fields of sacct.
func TestUsageAsSlurmHasIt(t *testing.T) {
	var none *Usage
	if none.MaxRSS()+none.AveRSS() != 0 || none.TotalCPU()+none.UserCPU()+none.SystemCPU() != 0 ||
		none.TRESUsageInTot()+none.TRESUsageInAve(1) != "" {
		t.Error("something is known of nothing")
	}
	u := &Usage{CPUSeconds: 3725.5, SystemSeconds: 25.5, PeakMemory: 6 << 20, Memory: 9 << 20, Workers: 2}
	if u.MaxRSS() != 6<<20 || u.AveRSS() != 9<<19 || u.TotalCPU() != 3725.5 || u.UserCPU() != 3700 ||
		u.SystemCPU() != 25.5 {
		t.Errorf("got %d, %d, %v, %v", u.MaxRSS(), u.AveRSS(), u.UserCPU(), u.SystemCPU())
	}
	if got := u.TRESUsageInTot(); got != "cpu=01:02:05,mem=9216K" {
		t.Errorf("got %s", got)
	}
	u.GPUUtil, u.PeakGPUUtil, u.PeakGPUMemory = 71, 99, 3<<20
	if got := u.TRESUsageInTot(); got != "cpu=01:02:05,gres/gpumem=3072K,gres/gpuutil=71,mem=9216K" {
		t.Errorf("got %s", got)
	}
	if got := u.TRESUsageInAve(5); got != "cpu=00:12:25,gres/gpumem=1536K,gres/gpuutil=71,mem=4608K" {
		t.Errorf("got %s", got)
	}
}
