//! Words of a company's wiki. Each subject has its own, and its tags.

/// What a page is about.
pub(crate) struct Subject {
    pub(crate) tags: &'static str,
    pub(crate) words: &'static str,
}

const fn subject(tags: &'static str, words: &'static str) -> Subject {
    Subject { tags, words }
}

/// Words of every page.
pub(crate) const ENGLISH: &str = "\
team people person member group department manager lead owner office company product project plan task issue ticket \
question answer reason result case change update version list table page document note comment report meeting call \
mail message channel week month year quarter day morning evening hour minute deadline date time start end stop begin \
open close send receive ask tell check review approve decide agree choose prefer need want help support explain \
describe show hide find look read write create delete remove add keep hold move copy replace change fix repair break \
fail pass test try use run build make take give get put set turn switch work wait follow lead bring carry return \
cost price budget amount number count limit maximum minimum average total share part half percent level rate rule \
policy process step procedure guide example detail summary overview status decision proposal option alternative risk \
problem error fault cause effect impact consequence benefit improvement quality speed slow fast old new current \
previous next last first second third large small high low long short early late good bad better worse right wrong \
clear common rare usual special important urgent simple complex safe public private internal external local remote \
automatic manual daily weekly monthly yearly nightly agent bot assistant machine tool system service server client \
customer user account name key value file folder link form field button screen image text word line column row \
allowed forbidden required optional possible available missing ready done planned expected known agreed";

/// What Chinese sentences are made of.
pub(crate) const CHINESE: &str = "\
我们 团队 同事 负责人 部门 公司 客户 用户 产品 项目 计划 任务 问题 原因 结果 情况 变更 更新 版本 列表 页面 文档 说明 备注 报告 \
会议 电话 邮件 消息 频道 本周 每月 今年 季度 每天 早上 晚上 小时 分钟 截止 日期 时间 开始 结束 停止 打开 关闭 发送 收到 询问 告知 \
检查 评审 批准 决定 同意 选择 建议 需要 支持 解释 描述 查看 编写 创建 删除 增加 保留 移动 复制 替换 修复 失败 通过 测试 尝试 使用 \
运行 构建 等待 跟进 返回 成本 价格 预算 金额 数量 上限 最低 平均 合计 比例 级别 规则 制度 流程 步骤 办法 示例 细节 总结 状态 方案 \
风险 错误 故障 影响 后果 好处 改进 质量 速度 较慢 很快 旧的 新的 目前 上次 下次 最后 第一 第二 较大 较小 偏高 偏低 提前 推迟 重要 \
紧急 简单 复杂 安全 公开 内部 外部 本地 远程 自动 手工 智能体 机器人 助手 机器 工具 系统 服务 接口 账号 名称 字段 文件 目录 链接 \
表单 按钮 屏幕 图片 文本 可以 不能 必须 已经 正在 如果 否则 因为 所以 但是 并且 或者 之前 之后 其中 大约 超过 不到 左右 什么 怎么 \
多久 多少 哪天 哪个 标准 规范 申请 登记 通知 提醒 统计 记录 数据 日志 环境 线上 升级 下线 上线 发布 配置 权限 联系 处理 恢复";

/// English subjects, near to those of the set and of its queries.
pub(crate) const ENGLISH_SUBJECTS: &[Subject] = &[
    subject(
        "database storage",
        "database replica follower primary query index table schema migration lag backup \
        restore transaction lock connection pool vacuum partition shard row disk snapshot archive recovery algorithm \
        compression dump read write cluster behind",
    ),
    subject(
        "billing finance",
        "invoice bill payment vendor supplier purchase order PO cutoff tax discount refund \
        credit currency accountant ledger receipt amount overdue bank transfer subscription cancel contract renewal \
        reminder number books",
    ),
    subject(
        "messaging architecture",
        "kafka broker queue topic stream consumer producer event publish subscribe \
        delivery offset partition retry ordering durable throughput latency between services bus",
    ),
    subject(
        "incident postmortem",
        "incident outage postmortem timeline root cause finding alert responder mitigation \
        rollback callback webhook certificate expiry firewall handshake timeout notification stopped arriving \
        degraded recovered",
    ),
    subject(
        "export integration",
        "export import csv spreadsheet separator delimiter column quote encoding utf8 utc \
        local timezone clinic hospital partner dump format schema mapping profile nightly transfer",
    ),
    subject(
        "runtime dependencies",
        "python interpreter runtime library package wheel compiler toolchain upgrade \
        migration release lockfile dependency binary version 3.12 node rust go image container security patch",
    ),
    subject(
        "git convention",
        "git branch naming convention prefix commit merge rebase pull request review reviewer \
        tag push hook repository squash conflict automated ticket key hotfix",
    ),
    subject(
        "privacy security",
        "personal data leak breach suspected privacy officer notify consent deletion retention \
        history chat period records encryption access audit law information regulator laptop stolen",
    ),
    subject(
        "testing quality",
        "test regression suite flaky unstable coverage nightly digest removal quarantine \
        fixture mock assertion failure rerun pipeline brief spend policy stable browser",
    ),
    subject(
        "devices mobile",
        "phone handset tablet device operating system OS android battery display screen drawer \
        blue white grey charger upgrade okay sim mobile kiosk release",
    ),
    subject(
        "canteen recipe",
        "soup stew lentil carrot onion lunch kitchen recipe amounts vegetarian salad bread cook \
        menu spice lemon group serving large oven allergy dessert canteen",
    ),
    subject(
        "travel policy",
        "travel trip business flight flying train rail hotel booking airport car taxi expense \
        rules versus allowance reimbursement ticket class approval itinerary visa",
    ),
    subject(
        "hardware gpu",
        "gpu graphics card power draw capped watt temperature fan cooling server rack downstairs \
        cellar training cluster fuse circuit driver memory clock",
    ),
    subject(
        "on-call monitoring",
        "pager on-call shift changeover rotation weekly alert trial escalation runbook \
        acknowledgement holiday phone page noise severity handover hour silence dashboard",
    ),
    subject(
        "release planning",
        "release deployment calendar freeze quarter end train candidate staging production \
        rollout hotfix schedule window notes version canary toggle",
    ),
    subject(
        "law accessibility",
        "accessibility law EU directive statement screen reader keyboard contrast colour hex \
        code palette warning plugin reservation booking audit apply exemption wording label design",
    ),
    subject(
        "translation wording",
        "french german translation wording glossary term UI interface bot mistaken formal \
        tone copy string locale language typo text cop police confused",
    ),
    subject(
        "office routine",
        "office meeting-free focus time weekday morning desk room guest visitor car parking spot \
        booking deadline reception badge garage bicycle lunch quiet calendar invite",
    ),
    subject(
        "security access",
        "credential token key lifetime expiry rotation secret vault password login bots people \
        permission role service account session scope revoke mfa",
    ),
    subject(
        "support customers",
        "support customer refund bot sign-off maximum complaint escalation ticket reply \
        macro satisfaction agent transcript apology voucher credit limit hours language",
    ),
    subject(
        "onboarding team",
        "onboarding newcomer starter mentor buddy task first week laptop account training \
        outside own group introduction checklist probation welcome feedback coffee",
    ),
    subject(
        "maps costs",
        "map provider tiles subscription contract cancel deadline notice geocoding address quota \
        requests price alternative hosting supplier coverage yearly renewal",
    ),
    subject(
        "api deprecation",
        "endpoint api deprecated shutdown sunset orders client caller remain version header \
        brownout migration traffic response field pagination rate limit webhook",
    ),
    subject(
        "metrics monitoring",
        "prometheus metric label cardinality series tag customer histogram counter scrape \
        dashboard grafana retention query problem memory log trace exporter",
    ),
    subject(
        "network vpn",
        "vpn network tunnel staging upload big file transfer stuck stalls mtu packet dns proxy \
        router wifi firewall bandwidth ping interface provider",
    ),
    subject(
        "hiring people",
        "hiring interview candidate offer salary vacation leave parental sick contract bonus \
        review feedback goal promotion referral policy holiday",
    ),
    subject(
        "data warehouse",
        "warehouse pipeline report dashboard metric fact dimension load job schedule \
        late backfill column model freshness owner quarter finance numbers",
    ),
    subject(
        "models prompts",
        "model prompt token context window temperature evaluation benchmark hallucination tool \
        call agent cost latency cache provider fallback safety output",
    ),
];

/// Chinese subjects, near to those of the set and of its queries.
pub(crate) const CHINESE_SUBJECTS: &[Subject] = &[
    subject(
        "登录 短信",
        "登录 验证码 短信 频繁 获取 次数 限制 手机号 密码 网关 黑名单 语音 注册 账号 锁定 风控 脚本 号码 滑动 令牌",
    ),
    subject(
        "食堂 菜谱",
        "食堂 菜谱 夏季 饮料 配方 比例 乌梅 绿豆 米饭 套餐 厨师 午餐 晚餐 冰柜 糖 调料 素食 窗口 充值 饭卡 饮品",
    ),
    subject(
        "机器人 仓库",
        "巡检 机器人 小车 仓库 货架 充电 电量 电池 剩余 叉车 固件 轮胎 传感器 路线 急停 盘点 缺货 导航 回去 停靠",
    ),
    subject(
        "知识库 向量检索",
        "向量 向量库 检索 索引 重建 重做 定期 召回 切块 文档 内存 机器 配置 分区 嵌入 命中率 别名 多大 模型 语料",
    ),
    subject(
        "物流 地址",
        "物流 快递 快递公司 地址 识别 解析 街道 乡镇 省市 网点 配送 派单 编码 骑手 签收 运单 时效 轨迹 级别 调度",
    ),
    subject(
        "差旅 报销",
        "出差 差旅 酒店 报销 标准 发票 补贴 机票 高铁 住宿 超标 审批 税号 抬头 财务 额度 行程 交通 餐费 借款",
    ),
    subject(
        "法律 合规",
        "隐私 个人信息 国外 境外 数据 跨境 合规 法务 评估 脱敏 用户 授权 协议 律师 备案 监管 出境 保密 期限 agent",
    ),
    subject(
        "翻译 术语",
        "翻译 术语 中文 英文 界面 文案 叫法 workspace prompt token 本地化 词表 帮助 文档 侧边栏 提示 译法 语言 按钮 截图",
    ),
    subject(
        "会议室 设备",
        "会议室 投影 卡顿 投屏 电视 话筒 摄像头 转接头 报修 网络 遥控器 预订 白板 视频 桌子 设备 扫码 怎么办 无线 信号",
    ),
    subject(
        "事故 复盘",
        "事故 复盘 根因 优惠券 重复 发放 幂等 重试 超时 活动 影响 时间线 改进 补偿 告警 监控 误发 用户 下单 流量 值班",
    ),
    subject(
        "前端 性能",
        "前端 微前端 子应用 弃用 性能 对比 首屏 构建 路由 加载 样式 依赖 组件 打包 浏览器 缓存 重构 仓库 页面 框架",
    ),
    subject(
        "数据库 依赖",
        "数据库 驱动 连接 连接数 连接池 耗尽 升级 版本 事务 超时 主从 延迟 备份 慢查询 索引 依赖 回归 锁文件 迁移 分表",
    ),
    subject(
        "规范 命名",
        "规范 命名 建表 表名 单数 复数 字段 主键 注释 代码 变量 下划线 小写 枚举 评审 约定 模板 目录 分支 提交 脚本",
    ),
    subject(
        "应急 机房",
        "机房 停电 没电 应急 联系 物业 电源 柴油 发电机 空调 温度 门禁 钥匙 值班 巡查 关机 供电 机柜 恢复 演练 电话",
    ),
    subject(
        "成本 存储",
        "日志 归档 存储 成本 省钱 费用 冷层 热层 生命周期 账单 桶 取回 压缩 保留 审计 追踪 旧日志 删除 对象 优化",
    ),
    subject(
        "硬件 维护",
        "硬盘 NAS 磁盘 槽位 阵列 背板 坏盘 更换 容量 扩容 备份 厂商 过保 指示灯 重建 机箱 离线 共享 存储 维护 告警",
    ),
    subject(
        "代码评审 智能体",
        "合并请求 代码 评审 行数 上限 智能体 工程师 流水线 模块 测试 批准 重命名 拆分 提交 仓库 分支 AI 合入 意见 规矩",
    ),
    subject(
        "灰度 部署",
        "灰度 上线 比例 节奏 回退 条件 回滚 流量 网关 新版本 部署 发布 错误率 延迟 分桶 开关 观察 冷启动 稳定性 窗口",
    ),
    subject(
        "客服 流程",
        "客服 顾客 投诉 生气 转人工 真人 坐席 排队 话术 安抚 满意度 机器人 工单 回复 超时 班长 优先 退款 咨询 何时",
    ),
    subject(
        "合同 行政",
        "合同 用印 公章 盖章 行政 法务 审批 电子签 终稿 归还 登记 保险柜 附件 甲方 乙方 骑缝 归档 快递 哪天 营业执照",
    ),
    subject(
        "语音识别 评测",
        "语音 方言 四川 粤语 普通话 识别 准确率 录音 噪声 麦克风 门店 供应商 模型 下线 功能 标注 评测 口音 点单 字准",
    ),
    subject(
        "报表 时间",
        "日报 报表 统计 口径 营业日 凌晨 零点 门店 订单 时区 财务 月结 指标 看板 新的一天 换日 汇总 销售 环比 字段",
    ),
    subject(
        "监控 告警",
        "告警 屏蔽 静默 最长 监控 恢复 阈值 值班 工单 频道 集群 磁盘 误报 升级 电话 降级 范围 续期 过期 大屏",
    ),
    subject(
        "实习生 权限",
        "实习 实习生 同学 导师 权限 线上 账号 入职 只读 转正 离职 开通 到期 培训 新来 新人 脱敏 仓库 环境 申请",
    ),
    subject(
        "办公 空调",
        "办公室 空调 周六 周日 加班 收费 费用 物业 楼层 供暖 冷气 照明 门禁 工位 保洁 饮水机 停车 快递柜 打印机 申请",
    ),
    subject(
        "安全 消防",
        "消防 疏散 演习 集合 警报 楼梯 灭火器 安全员 通道 地点 点名 哪天 电梯 东门 停车场 通知 检查 隐患 值守 预案",
    ),
    subject(
        "评测 质量",
        "评测 题库 及格线 分数 agent 考试 拒答 判分 抽查 复核 通过率 候选 版本 回归 样本 指标 多轮 标准 上线 标注",
    ),
    subject(
        "支付 对账",
        "对账 账目 账单 流水 差额 支付 渠道 财务 核对 几分钱 四舍五入 挂账 退款 结算 手续费 笔数 资金 更正 月底 差异",
    ),
    subject(
        "分享 团队",
        "分享 讲座 技术 主讲 奖励 购书券 报名 团建 录像 幻灯片 周五 论文 演示 听众 题目 书架 社团 活动 礼品 沙龙",
    ),
    subject(
        "接口 定时任务",
        "定时 任务 整点 天气 气象 抓取 接口 预报 降雨 风力 更新 调用 上限 重试 延迟 调度 时效 缓存 数据 凌晨",
    ),
    subject(
        "采购 资产",
        "采购 资产 电脑 显示器 供应商 报价 合同 验收 入库 领用 盘点 报废 预算 审批 发票 型号 保修 标签 维修 归还",
    ),
    subject(
        "招聘 人事",
        "招聘 面试 简历 候选人 薪资 绩效 考核 年假 病假 调休 社保 公积金 合同 试用期 晋升 培训 内推 考勤 离职 福利",
    ),
];
