// The module `hive:host`.
const host = import.meta.host;
export const { tool, hook, channel, state, log, error, digest, uuid } = host;
export let config = {};
host.configured((value) => {
  config = value;
});
