-- A tenant's file, version 7: values of metrics are found by the id that their sender gave them, as rewards are
-- (0005_reward_ids.sql). It stands in `user` of their rows (type 14).
CREATE INDEX events_measured_id ON events (user) WHERE type = 14 AND user IS NOT NULL;
