-- For haproxy.cfg: the arm that laplaced decides for the visitor's cookie, in txn.arm, and its decision in txn.decision. Both stay
-- unset where it cannot be asked in time.
local url = "http://127.0.0.1:8080/route/page?fallback=a"
local headers = { ["authorization"] = { "Bearer KEY" } }
local timeout_ms = 1000

core.register_action("laplaced", { "http-req" }, function(txn)
    local asked = { ["authorization"] = headers["authorization"] }
    local user = txn.sf:req_cook("uid")
    if user ~= nil and user ~= "" then
        asked["laplaced-user"] = { user }
    end
    local answer = core.httpclient():get({ url = url, headers = asked, timeout = timeout_ms })
    if answer == nil or answer.status ~= 204 then
        return
    end
    local arm, decision = answer.headers["laplaced-arm"], answer.headers["laplaced-decision"]
    if arm ~= nil then
        txn:set_var("txn.arm", arm[0])
    end
    if decision ~= nil then
        txn:set_var("txn.decision", decision[0])
    end
end)
