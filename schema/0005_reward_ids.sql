-- A tenant's file, version 5: rewards are found by the id that their sender gave them. It stands in `user` of their rows
-- (type 5), which name a decision and no user.
CREATE INDEX events_reward_id ON events (user) WHERE type = 5 AND user IS NOT NULL;
