// Client of laplaced. See README.md.
export { Client } from "./client.js";
export type { CallOptions, Configuration, Decision, LogEvent, Options, ReplayReport, RequestOptions, Reward, RewardResult } from "./client.js";
export * from "./errors.js";
export type { Retry } from "./retry.js";
export { Rewards, type RewardsOptions } from "./rewards.js";
export type { components, paths } from "./contract.js";
