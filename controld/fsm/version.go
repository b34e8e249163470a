package fsm

// LatestVersion is the greatest cluster version that this program knows. A leader raises
// Config.Version to it once every controller knows it, and proposes nothing of a version above
// Config.Version.
//
// From the first release on a kind of command keeps its meaning for ever. A second version is added
// in three steps. The new meaning becomes a further kind in the table of commands, LatestVersion
// becomes 2, and proposers use the new kind only if Config.Version >= 2.
const LatestVersion = 1
